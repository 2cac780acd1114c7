// Runs a function's handler behind HTTP.
//
// The main thread listens; handlers run in threads of their own, as many as requests may run at once. A thread that takes
// too long is ended alone, and a new one is started. A request that no thread has seen is refused in a way that says so,
// so that whoever sent it may send it elsewhere.
'use strict';

const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const zlib = require('node:zlib');
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');

// In a slot: waits until somebody says what to run; then the environment is that code's. Whoever only looks whether
// somebody waits says nothing. Threads get the environment from here.
if (isMainThread && process.env.FN_SLOT) {
  let text = '';
  while (!text) text = fs.readFileSync(process.env.FN_SLOT, 'utf8');
  delete process.env.FN_SLOT;
  Object.assign(process.env, JSON.parse(text).env);
}

const CODE = '/fn/code';
const UNPACKED = '/tmp/fn';
const MOST_BODY = 8 << 20;
const MOST_UNPACKED = 256 << 20;
// Of answers that wait for their acknowledgement.
const [MOST_KEPT, MOST_KEPT_BYTES, LARGEST_KEPT, KEPT_TIME] = [1000, 16 << 20, 1 << 20, 3600 * 1000];
const TIMEOUT = Number(process.env.FN_TIMEOUT || 60) * 1000;
// Whether a call ends when its caller has gone, and how long it then may go on.
const [CANCEL, CANCEL_TIME] = [Boolean(process.env.FN_CANCEL), 5000];
const WORKERS = Math.max(1, Number(process.env.FN_CONCURRENCY || 1));
// In the order in which they are looked for: what index.js exports is what its package does.
const MODULES = ['main', 'index', 'handler', 'app', 'function'];
const HANDLERS = ['main', 'handler', 'run', 'default'];
const CONTEXTS = ['context', 'ctx', '_context', '_ctx', 'c', '_'];
const WHOLE = ['params', 'param', 'event', 'args', 'payload', 'data', 'request', 'body', 'input', 'e', 'p', 'd', '_', 'arg'];
// Of actions that were made by the API of OpenWhisk: parameters that every call has, and where their key is.
const PARAMETERS = JSON.parse(process.env.__OW_PARAMETERS || '{}');
const ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';
const JSON_TYPE = ['content-type', 'application/json'];
const TEXT_TYPE = ['content-type', 'text/plain; charset=utf-8'];

// ---- the user's code ------------------------------------------------------------------------------------------------

// Only plain files below the folder; the server has checked it, and it is checked again.
function unpack(file) {
  const zip = fs.readFileSync(file);
  let end = zip.length - 22;
  while (end >= 0 && zip.readUInt32LE(end) !== 0x06054b50) end--;
  if (end < 0) throw new Error('the archive is broken');
  let at = zip.readUInt32LE(end + 16);
  let total = 0;
  for (let count = zip.readUInt16LE(end + 10); count > 0; count--) {
    const [method, packed, nameLength] = [zip.readUInt16LE(at + 10), zip.readUInt32LE(at + 20), zip.readUInt16LE(at + 28)];
    const name = zip.toString('utf8', at + 46, at + 46 + nameLength);
    const mode = zip.readUInt32LE(at + 38) >>> 16;
    const local = zip.readUInt32LE(at + 42);
    at += 46 + nameLength + zip.readUInt16LE(at + 30) + zip.readUInt16LE(at + 32);
    const target = path.normalize(path.join(UNPACKED, name));
    if (!(target + '/').startsWith(UNPACKED + '/') || (mode & 0o170000) === 0o120000) {
      throw new Error(`the archive has a bad entry: ${name}`);
    }
    if (name.endsWith('/')) { fs.mkdirSync(target, { recursive: true }); continue; }
    const start = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28);
    const raw = zip.subarray(start, start + packed);
    const content = method === 0 ? raw : zlib.inflateRawSync(raw, { maxOutputLength: MOST_UNPACKED });
    total += content.length;
    if (total > MOST_UNPACKED) throw new Error(`the archive has more than ${MOST_UNPACKED} bytes unpacked`);
    fs.mkdirSync(path.dirname(target), { recursive: true });
    fs.writeFileSync(target, content, { flag: 'wx' });
  }
  return UNPACKED;
}

// The folder of the code. A zip of one folder is that folder.
function folder() {
  const archive = path.join(CODE, 'code.zip');
  if (!fs.existsSync(archive)) return CODE;
  const top = unpack(archive);
  const inside = fs.readdirSync(top).filter((name) => !name.startsWith('.') && !name.startsWith('__'));
  const only = inside.length === 1 && path.join(top, inside[0]);
  return only && fs.statSync(only).isDirectory() ? only : top;
}

async function importFrom(file) {
  try {
    return require(file);
  } catch (error) {
    if (error.code !== 'ERR_REQUIRE_ESM' && !/import statement outside|Unexpected token 'export'/.test(error.message)) throw located(error, file);
    return await import(file).catch((problem) => { throw located(problem, file); });
  }
}

// Of an ES module that does not compile Node does not say where, but for its own check.
function located(error, file) {
  if (!(error instanceof SyntaxError) || error.stack.includes(`${file}:`)) return error;
  const { spawnSync } = require('node:child_process');
  const check = ['--input-type=module', '--check', '-'];
  const { status, stderr } = spawnSync(process.execPath, check, { input: fs.readFileSync(file), encoding: 'utf8', timeout: 10000 });
  if (status) error.stack = stderr.replace('[stdin]', file).replace(/\nNode\.js v[\s\S]*$/, '');
  return error;
}

async function load(code) {
  process.env.HOME = '/tmp';
  const wanted = process.env.FN_HANDLER || '';
  const find = (name) => ['.js', '.mjs', '.cjs', '/index.js'].map((end) => path.join(code, name + end)).find((file) => fs.existsSync(file));
  if (wanted) {
    const dot = wanted.lastIndexOf('.');
    const [name, attribute] = [wanted.slice(0, dot), wanted.slice(dot + 1)];
    const file = find(name);
    if (!file) throw new Error(`there is no module ${name} in the code (there is ${fs.readdirSync(code).join(', ')})`);
    const module = await importFrom(file);
    const found = module[attribute] || (module.default && module.default[attribute]);
    if (typeof found !== 'function') throw new Error(`${name} exports no function ${attribute}; it exports ${Object.keys(module).join(', ') || 'nothing'}`);
    return found;
  }
  let file = MODULES.map(find).find(Boolean);
  const description = path.join(code, 'package.json');
  if (fs.existsSync(description)) {
    const main = JSON.parse(fs.readFileSync(description, 'utf8')).main;
    if (main) file = [main, main + '.js', path.join(main, 'index.js')].map((name) => path.join(code, name)).find((name) => fs.existsSync(name) && fs.statSync(name).isFile()) || file;
  }
  const there = fs.readdirSync(code).filter((name) => /\.[cm]?js$/.test(name));
  if (!file && there.length === 1) file = path.join(code, there[0]);
  if (!file) throw new Error(`no module ${MODULES.slice(0, 4).join(', ')} in the code (there is ${there.join(', ') || 'no .js file'}); name one with handler: MODULE.FUNCTION`);
  const module = await importFrom(file);
  const found = [module, module.default].filter(Boolean).flatMap((one) => HANDLERS.map((name) => one[name])).find((one) => typeof one === 'function');
  if (found) return found;
  if (typeof module === 'function') return module;
  // OpenWhisk's actions may export nothing and have a function main.
  const text = fs.readFileSync(file, 'utf8');
  if (/^\s*(async\s+)?function\s+main\s*\(/m.test(text)) {
    const Module = require('node:module');
    const again = new Module(file, null);
    again.filename = file;
    again.paths = Module._nodeModulePaths(path.dirname(file));
    again._compile(text + '\nmodule.exports = { main };', file);
    return again.exports.main;
  }
  throw new Error(`${path.basename(file)} exports no function ${HANDLERS.slice(0, 3).join(', ')} (it exports ${Object.keys(module).join(', ') || 'nothing'}); name one with handler: MODULE.FUNCTION`);
}

// The names of a function's plain parameters.
function parameters(handler) {
  const text = Function.prototype.toString.call(handler).replace(/\/\*[^]*?\*\//g, '');
  const list = /^(?:async\s*)?(?:function\s*\*?\s*[\w$]*\s*)?\(([^)]*)\)/.exec(text) || /^(?:async\s*)?([\w$]+)\s*=>/.exec(text);
  return list ? list[1].split(',').map((one) => one.replace(/=.*$/s, '').trim()).filter(Boolean) : [];
}

function payload(request) {
  const value = sent(request);
  const isObject = value !== null && typeof value === 'object' && !Array.isArray(value) && !Buffer.isBuffer(value);
  return isObject ? { ...PARAMETERS, ...value } : value;
}

// By which an action calls others; tokens are renewed, so it is read anew for each call.
function setKey() {
  if (!process.env.__OW_API_HOST) return;
  try {
    process.env.__OW_API_KEY = `${process.env.FN_NAMESPACE}:${fs.readFileSync(path.join(ACCOUNT, 'token'), 'utf8').trim()}`;
  } catch { /* it has no account */ }
}

// The API that the key is for has a certificate of the cluster's own authority.
function trustCluster() {
  if (!process.env.__OW_API_HOST || !fs.existsSync(path.join(ACCOUNT, 'ca.crt'))) return;
  const tls = require('node:tls');
  const [authority, plain] = [fs.readFileSync(path.join(ACCOUNT, 'ca.crt'), 'utf8'), tls.createSecureContext];
  tls.createSecureContext = (options) => {
    const made = plain(options);
    if (!options || !options.ca) made.context.addCACert(authority);
    return made;
  };
}

function sent(request) {
  const { headers, body } = request;
  if (!body.length) return Object.fromEntries(new URLSearchParams(request.query));
  const kind = (headers['content-type'] || '').split(';')[0].trim().toLowerCase();
  const first = String.fromCharCode(body[0]);
  const text = Buffer.from(body).toString('utf8');
  if (kind === 'application/x-www-form-urlencoded' && first !== '{' && first !== '[') return Object.fromEntries(new URLSearchParams(text));
  try {
    return JSON.parse(text);
  } catch {
    if (kind.endsWith('json')) throw new BadRequest('the body is not JSON');
    return kind.startsWith('text/') || !kind ? text : Buffer.from(body);
  }
}

class BadRequest extends Error {}

function context(request) {
  const until = Date.now() + TIMEOUT;
  return {
    functionName: process.env.FN_NAME, functionVersion: process.env.FN_REVISION, namespace: process.env.FN_NAMESPACE,
    awsRequestId: request.headers['x-request-id'] || request.id, headers: request.headers, method: request.method,
    path: request.path, query: request.query, getRemainingTimeInMillis: () => Math.max(0, until - Date.now()),
  };
}

function call(handler, names, request) {
  const value = payload(request);
  if (names.length === 0) return handler(value);
  if (names.length === 3 || (names.length === 2 && CONTEXTS.includes(names[1]))) {
    if (names.length === 2) return handler(value, context(request));
    return new Promise((resolve, reject) => {
      const answer = handler(value, context(request), (error, result) => (error ? reject(error) : resolve(result)));
      if (answer && typeof answer.then === 'function') answer.then(resolve, reject);
    });
  }
  const isObject = value !== null && typeof value === 'object' && !Array.isArray(value) && !Buffer.isBuffer(value);
  const isWhole = names.length === 1 && (WHOLE.includes(names[0]) || names[0].startsWith('{') || names[0].startsWith('...'));
  if (isWhole || !isObject || names.some((name) => name.startsWith('{'))) return handler(value);
  if (names.length === 1 && !(names[0] in value)) return handler(value);
  return handler(...names.map((name) => value[name]));
}

// What is made piece by piece: generators, streams of Node and of the web. Arrays and bytes are there already.
function isStream(value) {
  if (value === null || typeof value !== 'object' || Array.isArray(value) || ArrayBuffer.isView(value)) return false;
  return Symbol.asyncIterator in value || (Symbol.iterator in value && typeof value.next === 'function');
}

// Text and bytes go as they are, anything else as a line of JSON.
function pieceOf(value) {
  if (typeof value === 'string' || value instanceof Uint8Array) return Buffer.from(value);
  return Buffer.from(`${JSON.stringify(value === undefined ? null : value)}\n`);
}

// Status, headers, content: bytes, or what gives them piece by piece.
function answerOf(value, request) {
  if (isStream(value)) return [200, [TEXT_TYPE], value];
  if (value && typeof value === 'object' && 'statusCode' in value) {
    const headers = Object.entries(value.headers || {}).map(([key, one]) => [key, String(one)]);
    let content = value.body === undefined ? '' : value.body;
    if (value.isBase64Encoded && typeof content === 'string') content = Buffer.from(content, 'base64');
    if (isStream(content)) return [Number(value.statusCode), headers, content];
    if (typeof content !== 'string' && !Buffer.isBuffer(content)) {
      content = JSON.stringify(content);
      if (!headers.some(([key]) => key.toLowerCase() === 'content-type')) headers.push(JSON_TYPE);
    }
    return [Number(value.statusCode), headers, Buffer.from(content)];
  }
  if (Buffer.isBuffer(value) || value instanceof Uint8Array) return [200, [['content-type', 'application/octet-stream']], Buffer.from(value)];
  if (typeof value === 'string' && !(request.headers.accept || '').includes('json')) return [200, [TEXT_TYPE], Buffer.from(value)];
  return [200, [JSON_TYPE], Buffer.from(JSON.stringify(value === undefined ? null : value))];
}

// Hands the answer over, whole or piece by piece, each when the one before has been taken. Who fails before the first piece
// has failed, and that can be said.
async function run(handler, names, request) {
  setKey();
  let [begun, pieces] = [false, null];
  try {
    const [status, headers, content] = answerOf(await call(handler, names, request), request);
    if (Buffer.isBuffer(content)) return parentPort.postMessage({ status, headers, content });
    pieces = content[Symbol.asyncIterator] ? content[Symbol.asyncIterator]() : content[Symbol.iterator]();
    for (let next = await pieces.next(); !next.done; next = await pieces.next()) {
      const piece = pieceOf(await next.value);
      if (!piece.length) continue;
      const head = begun ? {} : { status, headers };
      begun = true;
      if (!(await taken({ ...head, piece }))) break;
    }
    if (pieces.return) await pieces.return();
    return parentPort.postMessage(begun ? { ended: true } : { status, headers, content: Buffer.alloc(0) });
  } catch (error) {
    if (begun) console.error(error);
    return parentPort.postMessage(begun ? { ended: true, broken: true } : failed(error));
  }
}

function failed(error) {
  if (error instanceof BadRequest) return failure(400, 'BadRequest', error.message, []);
  const trace = traceOf(error);
  console.error(trace.join('\n'));
  const text = { errorType: (error && error.name) || typeof error, errorMessage: String((error && error.message) || error), trace };
  return { status: 500, headers: [JSON_TYPE, ['minik8s-function-error', 'unhandled']], content: Buffer.from(JSON.stringify(text)) };
}

function traceOf(error) {
  return String((error && error.stack) || error).split('\n').filter((line) => !line.includes(__filename) && !/\(node:|at node:/.test(line));
}

// Posts a piece; false when nobody wants more. One call runs at a time in a thread.
let onTaken = null;
function taken(message) {
  return new Promise((resolve) => {
    onTaken = resolve;
    parentPort.postMessage(message);
  });
}

// Where broken code is broken, as FILE:LINE:COLUMN, before the trace: Node has the column of what does not compile in a line
// of its own, with a mark below.
function placed(error, code) {
  const lines = traceOf(error);
  const file = (text) => (text.startsWith(code) ? path.relative(code, text) : text);
  const found = lines.map((line) => /\(?(?:file:\/\/)?(\/[^():]+):(\d+):(\d+)\)?$/.exec(line)).find((match) => match && match[1].startsWith(code));
  const head = /^(?:file:\/\/)?(\/[^:]+):(\d+)$/.exec(lines[0] || '');
  const mark = lines.find((line) => /^\s*\^+\s*$/.test(line));
  const place = head && mark ? `${file(head[1])}:${head[2]}:${mark.indexOf('^') + 1}` : found && `${file(found[1])}:${found[2]}:${found[3]}`;
  return place ? [`${place}: ${error}`.split('\n')[0], ...lines].join('\n') : lines.join('\n');
}

async function work() {
  let handler;
  try {
    setKey();
    trustCluster();
    handler = await load(workerData.code);
  } catch (error) {
    parentPort.postMessage({ failed: placed(error, workerData.code) });
    return;
  }
  const names = parameters(handler);
  parentPort.on('message', (message) => {
    if (message.taken === undefined) run(handler, names, message);
    else if (onTaken) onTaken(message.taken);
  });
  parentPort.postMessage({ ready: true });
}

// ---- the front ------------------------------------------------------------------------------------------------------

function lastWords(text) {
  console.error(text);
  try { fs.writeFileSync('/dev/termination-log', text.slice(-4000)); } catch { /* it is in the log */ }
}

// Answers by the key of their call, until whoever called has written them down and says so: a caller that dies while a
// handler works asks again and gets the answer of that call, which is not made twice. The oldest go first.
const kept = {
  answers: new Map(),
  bytes: 0,
  keep(key, { status, headers, content }) {
    if (content.length > LARGEST_KEPT) return;
    this.forget(key);
    this.answers.set(key, { at: Date.now(), status, headers, content });
    this.bytes += content.length;
    for (const [oldest, { at }] of this.answers) {
      if (this.answers.size <= MOST_KEPT && this.bytes <= MOST_KEPT_BYTES && Date.now() - at < KEPT_TIME) return;
      this.forget(oldest);
    }
  },
  find(key) {
    const found = this.answers.get(key);
    return found && Date.now() - found.at < KEPT_TIME ? found : undefined;
  },
  forget(key) {
    this.bytes -= this.answers.get(key)?.content.length || 0;
    this.answers.delete(key);
  },
};
// Calls that have a key and run: who waits for their answer.
const open = new Map();

// What is known of a call that has a key: true if this request is answered by it, now or when it ends.
function answerAgain(incoming, response, asked, key) {
  const known = ['minik8s-kept', 'yes'];
  if (incoming.method === 'OPTIONS' && asked === 'acknowledge') {
    for (const one of key.split(',')) {
      kept.forget(one);
      if (open.has(one)) open.get(one).keep = false;
    }
    send(response, { status: 200, headers: [known], content: Buffer.alloc(0) });
    return true;
  }
  const found = kept.find(key);
  if (found) {
    send(response, { ...found, headers: [...found.headers, known] });
    return true;
  }
  if (open.has(key)) {
    response.setHeader(...known);
    open.get(key).response = response;
    return true;
  }
  if (incoming.method === 'OPTIONS' && asked === 'find') {
    send(response, failure(404, 'NotKept', 'nothing is known of this call', [['minik8s-not-executed', 'unknown']]));
    return true;
  }
  return false;
}

const free = [];
let [number, draining, running, code, listening] = [0, false, 0, '', false];

function hire() {
  const worker = new Worker(__filename, { workerData: { code } });
  worker.on('message', (message) => {
    if (message.failed !== undefined) {
      lastWords(message.failed);
      process.exit(1);
    }
    if (message.ready) {
      free.push(worker);
      if (!listening) { listening = true; listen(); }
      return;
    }
    if (message.piece) {
      if (worker.pass) worker.pass(message);
      return;
    }
    const done = worker.done;
    worker.done = worker.pass = null;
    free.push(worker);
    if (done) done(message);
  });
  const lost = (reason) => {
    if (worker.gone) return;
    worker.gone = true;
    const place = free.indexOf(worker);
    if (place >= 0) free.splice(place, 1);
    const done = worker.done;
    worker.done = worker.pass = null;
    if (!listening) { lastWords(`the code ended the process: ${reason}`); process.exit(1); }
    console.error(reason);
    hire();
    if (done) done(failure(502, 'WorkerDied', `the handler's thread ended before it had answered: ${reason}`));
  };
  worker.on('error', (error) => lost(String((error && error.stack) || error)));
  worker.on('exit', (status) => lost(`a thread ended with code ${status}`));
}

function failure(status, errorType, errorMessage, headers = [['minik8s-function-error', 'unhandled']]) {
  return { status, headers: [JSON_TYPE, ...headers], content: Buffer.from(JSON.stringify({ errorType, errorMessage })) };
}

function begin(response, { status, headers }, length = {}) {
  const closing = draining ? { connection: 'close' } : {};
  const skipped = ['content-length', 'transfer-encoding', 'connection'];
  for (const [key, value] of headers) {
    if (skipped.includes(key.toLowerCase())) continue;
    try { response.setHeader(key, value); } catch { /* not a header */ }
  }
  response.writeHead(status, { ...closing, ...length });
}

function send(response, answer) {
  begin(response, answer, { 'content-length': answer.content.length });
  response.end(answer.content);
}

// A piece of an answer; whether another is wanted is said when this one is on its way.
function sendPiece(worker, response, message) {
  const say = (taken) => worker.postMessage({ taken });
  if (response.destroyed) return say(false);
  if (message.status) begin(response, message);
  const heard = () => {
    response.off('drain', heard);
    response.off('close', heard);
    say(!response.destroyed);
  };
  if (response.write(message.piece)) return say(true);
  response.on('drain', heard);
  response.on('close', heard);
}

function serve(incoming, response) {
  const refuse = (why) => send(response, failure(503, 'NotExecuted', `the instance is ${why}`, [['minik8s-not-executed', why]]));
  const pieces = [];
  let length = 0;
  incoming.on('data', (piece) => {
    length += piece.length;
    if (length <= MOST_BODY) pieces.push(piece);
  });
  incoming.on('end', () => {
    if (length > MOST_BODY) return send(response, failure(413, 'BodyTooLarge', 'the body is too large', []));
    const { 'minik8s-result-key': key, 'minik8s-kept-result': asked, ...headers } = incoming.headers;
    if (key && answerAgain(incoming, response, asked, key)) return;
    if (draining) return refuse('draining');
    const worker = free.shift();
    if (!worker) return refuse('busy');
    const [target, query = ''] = incoming.url.split(/\?(.*)/s);
    const id = `${process.env.HOSTNAME || process.env.FN_NAME}-${++number}`;
    const fire = (status, reason, message) => {
      worker.gone = true;
      worker.done = worker.pass = null;
      worker.terminate();
      hire();
      console.error(`${reason}: ${message}`);
      over(failure(status, reason, message));
    };
    const late = setTimeout(() => fire(504, 'Timeout', `the handler took longer than ${TIMEOUT / 1000} s`), TIMEOUT);
    let cancelled = null;
    const call = { response, keep: Boolean(key), streams: false };
    // Whoever gave it a key may ask for its answer again.
    response.on('close', () => {
      if (CANCEL && !key && worker.done === over) cancelled = setTimeout(() => fire(499, 'Cancelled', 'the caller has gone'), CANCEL_TIME);
    });
    const over = (answer) => {
      clearTimeout(late);
      clearTimeout(cancelled);
      running--;
      if (key) open.delete(key);
      // What has begun cannot be taken back: it is cut off.
      if (call.streams) return answer.ended && !answer.broken ? call.response.end() : call.response.destroy();
      const whole = { ...answer, content: Buffer.from(answer.content) };
      if (call.keep) kept.keep(key, whole);
      send(call.response, whole);
    };
    running++;
    if (key) open.set(key, call);
    worker.done = over;
    worker.pass = (message) => {
      // It may take as long as it likes, but not between two pieces.
      late.refresh();
      if (!call.streams && key) open.delete(key);
      call.streams = true;
      sendPiece(worker, call.response, message);
    };
    worker.postMessage({ id, method: incoming.method, path: target, query, headers, body: Buffer.concat(pieces) });
  });
}

function listen() {
  const server = http.createServer({ keepAliveTimeout: 3600 * 1000, requestTimeout: 0 }, serve);
  server.listen(Number(process.env.PORT || 8080), '0.0.0.0', 512);
}

if (isMainThread) {
  process.on('SIGTERM', () => {
    if (!listening) process.exit(0);
    draining = true;
    setTimeout(() => setInterval(() => running === 0 && process.exit(0), 20), 1000);
  });
  try {
    code = folder();
    // Code reads its own files by their names; threads cannot change where they are.
    process.chdir(code);
    for (let count = 0; count < WORKERS; count++) hire();
  } catch (error) {
    lastWords(String((error && error.stack) || error));
    process.exit(1);
  }
} else {
  work();
}
