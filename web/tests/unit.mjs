// Runs tests/unit/*.test.ts with Node's own runner; esbuild, which Vite brings, makes them JavaScript.
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const web = join(dirname(fileURLToPath(import.meta.url)), '..');
const folder = join(web, 'tests/unit');
const names = readdirSync(folder).filter((name) => name.endsWith('.test.ts'));
const outdir = join(web, 'node_modules/.cache/unit');
await build({
  entryPoints: names.map((name) => join(folder, name)),
  outdir, bundle: true, format: 'esm', platform: 'node', target: 'node18', outExtension: { '.js': '.mjs' },
});
const files = names.map((name) => join(outdir, name.replace(/\.ts$/, '.mjs')));
process.exit(spawnSync(process.execPath, ['--test', ...files], { stdio: 'inherit' }).status ?? 1);
