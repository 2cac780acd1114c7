// Fetches the packages that a function's code asks for in its package.json, and hands them to the server.
//
// It runs in a pod of the function's namespace that may do nothing and has no credentials. npm fetches them, without
// running scripts of theirs; then whoever knows the pod's UID gets the files, and only files: a line of JSON before each,
// and one at the end. Where npm fails its last lines are the pod's last words.
'use strict';

const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const zlib = require('node:zlib');
const { once } = require('node:events');
const { spawn } = require('node:child_process');

const [ARCHIVE, FILES] = ['/fn/code/code.zip', '/tmp/files'];
const PACKAGES = path.join(FILES, 'node_modules');
const CLIENTS = ['/usr/share/nodejs/npm/bin/npm-cli.js', '/usr/lib/node_modules/npm/bin/npm-cli.js'];
const LAST_WORDS = '/dev/termination-log';
const MOST_UNPACKED = 256 << 20;
const BUILD = JSON.parse(process.env.FN_BUILD);
const UID = process.env.FN_BUILD_UID;

function fail(text) {
  console.log(text);
  fs.writeFileSync(LAST_WORDS, text.slice(-2000));
  process.exit(1);
}

// Only what the packages depend on; the server has checked the archive, and it is checked again.
function unpack() {
  const zip = fs.readFileSync(ARCHIVE);
  let end = zip.length - 22;
  while (end >= 0 && zip.readUInt32LE(end) !== 0x06054b50) end--;
  if (end < 0) throw new Error('the archive is broken');
  let [at, total] = [zip.readUInt32LE(end + 16), 0];
  for (let count = zip.readUInt16LE(end + 10); count > 0; count--) {
    const [method, packed, nameLength] = [zip.readUInt16LE(at + 10), zip.readUInt32LE(at + 20), zip.readUInt16LE(at + 28)];
    const name = zip.toString('utf8', at + 46, at + 46 + nameLength);
    const local = zip.readUInt32LE(at + 42);
    at += 46 + nameLength + zip.readUInt16LE(at + 30) + zip.readUInt16LE(at + 32);
    if (name.endsWith('/') || (BUILD.files && !BUILD.files.includes(name))) continue;
    const inside = name.startsWith(BUILD.folder) ? name.slice(BUILD.folder.length) : name;
    const target = path.normalize(path.join(FILES, inside));
    if (!target.startsWith(FILES + '/')) throw new Error(`the archive has a bad entry: ${name}`);
    const start = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28);
    const raw = zip.subarray(start, start + packed);
    const content = method === 0 ? raw : zlib.inflateRawSync(raw, { maxOutputLength: MOST_UNPACKED });
    total += content.length;
    if (total > MOST_UNPACKED) throw new Error(`the archive has more than ${MOST_UNPACKED} bytes unpacked`);
    fs.mkdirSync(path.dirname(target), { recursive: true });
    fs.writeFileSync(target, content, { flag: 'wx' });
  }
}

// What the operator has set for builds; nothing that this program is told by.
function environment() {
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith('FN_'));
  const settings = JSON.parse(process.env.FN_SETTINGS || '{}');
  const env = Object.fromEntries(own);
  if (settings.npmrc !== undefined) {
    fs.writeFileSync('/tmp/npmrc', settings.npmrc);
    env.NPM_CONFIG_GLOBALCONFIG = '/tmp/npmrc';
  }
  for (const [name, value] of Object.entries(settings)) if (!name.includes('.') && name !== 'npmrc') env[name] = value;
  return env;
}

async function fetchPackages() {
  const client = CLIENTS.find((file) => fs.existsSync(file));
  if (!client) throw new Error('there is no npm in the image');
  const isLocked = ['package-lock.json', 'npm-shrinkwrap.json'].some((file) => fs.existsSync(path.join(FILES, file)));
  const words = [client, isLocked ? 'ci' : 'install', '--omit=dev', '--ignore-scripts', '--no-audit', '--no-fund',
    '--no-update-notifier', '--loglevel=warn'];
  const npm = spawn(process.execPath, words, { cwd: FILES, env: environment(), stdio: ['ignore', 'pipe', 'pipe'] });
  let last = '';
  for (const stream of [npm.stdout, npm.stderr]) {
    stream.setEncoding('utf8');
    stream.on('data', (text) => {
      process.stdout.write(text);
      last = (last + text).slice(-1500);
    });
  }
  const [code] = await once(npm, 'close');
  if (code !== 0) fail(`npm cannot fetch what package.json asks for:\n${last}`.trimEnd());
}

// Every plain file below a folder, in one order, by its path there. npm links packages that are folders of the archive:
// they are taken as if they were copied. `above` are the folders that lead here, so that no circle is gone round.
function* files(folder, inside = '', above = []) {
  if (!fs.existsSync(folder)) return;
  const here = fs.realpathSync(folder);
  if (above.includes(here)) return;
  const entries = fs.readdirSync(here, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const entry of entries) {
    const [file, name] = [path.join(here, entry.name), path.join(inside, entry.name)];
    const isPackage = entry.isSymbolicLink() && fs.existsSync(file) && fs.statSync(file).isDirectory();
    if (entry.isDirectory() || (isPackage && fs.realpathSync(file).startsWith(FILES + '/'))) {
      yield* files(file, name, [...above, here]);
    } else if (entry.isFile() && entry.name !== '.package-lock.json') yield [file, name];
  }
}

async function answer(request, response) {
  if (request.headers['x-function-build'] !== UID) return response.writeHead(403).end();
  response.writeHead(200, { 'content-type': 'application/octet-stream', connection: 'close' });
  for (const [file, name] of files(PACKAGES)) {
    const content = fs.readFileSync(file);
    const head = { path: name, size: content.length, run: (fs.statSync(file).mode & 0o100) !== 0 };
    response.write(JSON.stringify(head) + '\n');
    if (!response.write(content)) await once(response, 'drain');
  }
  response.end('{"end": true}\n');
}

async function main() {
  unpack();
  await fetchPackages();
  console.log('the packages are ready');
  http.createServer((request, response) => answer(request, response).catch(() => response.destroy())).listen(8080);
}

main().catch((error) => fail(error.stack || String(error)));
