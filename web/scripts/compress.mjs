// Compresses what Vite built into web/dist, from which crates/ui embeds it. A file that did not change is not written
// anew: cargo would build the program again.
import { readFileSync, readdirSync, mkdirSync, rmSync, writeFileSync, existsSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, gzipSync, constants } from 'node:zlib';

const web = join(dirname(fileURLToPath(import.meta.url)), '..');
const from = join(web, '.build');
const to = join(web, 'dist');

const files = (folder) =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? files(path) : [path];
  });

const wanted = new Map();
for (const file of files(from)) {
  const content = readFileSync(file);
  const name = join(to, relative(from, file));
  wanted.set(`${name}.gz`, gzipSync(content, { level: 9 }));
  wanted.set(`${name}.br`, brotliCompressSync(content, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }));
}
for (const [path, content] of wanted) {
  if (existsSync(path) && readFileSync(path).equals(content)) continue;
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
}
for (const file of files(to)) {
  if (/\.(gz|br)$/.test(file) && !wanted.has(file)) rmSync(file);
}
