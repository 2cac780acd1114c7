// What open dashboards cost the server: `node tests/server_cost.mjs KUBECONFIG PID [DASHBOARDS] [SECONDS]`. Each is a connection
// of its own (HTTP/2, as at `/ui/`) with what an open overview holds: three watches as tables, and metrics every five seconds.
// Ten changes a second go to all of them. PID is the server's; what the changes alone cost is taken off.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { connect } from 'node:http2';
import { parse } from 'yaml';

const [kubeconfig, pid, dashboards = '50', seconds = '20'] = process.argv.slice(2);
const [COUNT, SECONDS] = [Number(dashboards), Number(seconds)];
const CHANGES_PER_SECOND = 10;
/** Of the design: of one core, and megabytes, for one open dashboard. */
const LIMIT = { cpu: 1, memory: 2 };
const TICKS_PER_SECOND = 100;

const config = parse(readFileSync(kubeconfig, 'utf8'));
const { cluster } = config.clusters[0];
const { user } = config.users[0];
const decode = (text) => Buffer.from(text, 'base64');
const options = { ca: decode(cluster['certificate-authority-data']), cert: decode(user['client-certificate-data']), key: decode(user['client-key-data']) };
const AS_TABLE = 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json';

const open = () =>
  new Promise((resolve, reject) => {
    const session = connect(cluster.server, options, () => resolve(session));
    session.on('error', reject);
  });

/** The whole answer, or with `onchunk` a stream that goes on. */
function ask(session, path, { method = 'GET', accept = 'application/json', type = 'application/json', body, onchunk } = {}) {
  return new Promise((resolve, reject) => {
    const stream = session.request({ ':method': method, ':path': path, accept, 'content-type': type });
    let text = '';
    stream.on('response', (headers) => {
      if (headers[':status'] >= 400 && headers[':status'] !== 409) reject(new Error(`${method} ${path}: ${headers[':status']}`));
      if (onchunk) resolve(stream);
    });
    stream.on('data', (chunk) => (onchunk ? onchunk(chunk) : (text += chunk)));
    stream.on('end', () => resolve(text ? JSON.parse(text) : undefined));
    stream.on('error', onchunk ? () => {} : reject);
    stream.end(body);
  });
}

function measure() {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
  const memory = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return { cpu: (Number(stat[11]) + Number(stat[12])) / TICKS_PER_SECOND, memory: Number(memory[1]) / 1024 };
}

const rest = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const timers = [];
const sessions = [];
let events = 0;

async function dashboard() {
  const session = await open();
  sessions.push(session);
  for (const path of ['/api/v1/nodes', '/api/v1/pods', '/apis/apps/v1/deployments']) {
    const list = await ask(session, `${path}?limit=1000`, { accept: AS_TABLE });
    const query = `watch=1&allowWatchBookmarks=true&resourceVersion=${list.metadata.resourceVersion}`;
    await ask(session, `${path}?${query}`, { accept: AS_TABLE, onchunk: () => events++ });
  }
  timers.push(setInterval(() => void Promise.all([ask(session, '/apis/metrics.k8s.io/v1beta1/nodes'), ask(session, '/api/v1/nodes?limit=500')]).catch(() => {}), 5000));
}

const main = await open();
const place = '/apis/apps/v1/namespaces/default/deployments';
const deployment = {
  apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'dashboard-cost' },
  spec: { replicas: 0, selector: { matchLabels: { app: 'cost' } }, template: { metadata: { labels: { app: 'cost' } }, spec: { containers: [{ name: 'c', image: 'none' }] } } },
};
try {
  await ask(main, place, { method: 'POST', body: JSON.stringify(deployment) });
  let change = 0;
  timers.push(
    setInterval(() => {
      const body = JSON.stringify({ metadata: { annotations: { change: String(++change) } } });
      void ask(main, `${place}/dashboard-cost`, { method: 'PATCH', type: 'application/merge-patch+json', body }).catch(() => {});
    }, 1000 / CHANGES_PER_SECOND),
  );
  await rest(3000);
  const [quiet, start] = [measure(), Date.now()];
  await rest(SECONDS * 1000);
  const before = measure();
  const base = (before.cpu - quiet.cpu) / ((Date.now() - start) / 1000);
  for (let i = 0; i < COUNT; i++) await dashboard();
  await rest(3000);
  const [opened, since, seen] = [measure(), Date.now(), events];
  await rest(SECONDS * 1000);
  const after = measure();
  const cpu = (((after.cpu - opened.cpu) / ((Date.now() - since) / 1000) - base) * 100) / COUNT;
  const memory = (after.memory - before.memory) / COUNT;
  console.log(`without dashboards: ${(base * 100).toFixed(1)} % of a core, ${before.memory.toFixed(0)} MB`);
  console.log(`${COUNT} dashboards, ${Math.round((events - seen) / SECONDS)} pieces of events/s: ${cpu.toFixed(2)} % of a core and ${memory.toFixed(2)} MB for each`);
  assert.ok(events > seen, 'events arrive');
  assert.ok(cpu <= LIMIT.cpu && memory <= LIMIT.memory, `at most ${LIMIT.cpu} % and ${LIMIT.memory} MB`);
} finally {
  timers.forEach(clearInterval);
  await ask(main, `${place}/dashboard-cost`, { method: 'DELETE' }).catch(() => {});
  for (const session of [...sessions, main]) session.close();
  setTimeout(() => process.exit(), 200).unref();
  for (const session of sessions) session.destroy();
}
