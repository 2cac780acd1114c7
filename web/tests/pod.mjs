// The windows into containers: `node tests/pod.mjs LINK NAMESPACE NODE [FOLDER]`, with pods `talker`, `pages` and `broken` on a
// real node. crates/minik8s/tests/e2e/node/dashboard.rs makes them.
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { checkAccess, complaints, launch, openPage } from './browser.mjs';

const [link, namespace, node, folder] = process.argv.slice(2);
const base = new URL(link).origin;
if (folder) mkdirSync(folder, { recursive: true });
const shot = async (page, name) => folder && page.screenshot({ path: join(folder, `${name}.png`) });
const at = (pod, tab) => `${base}/ui/list?kind=pods&namespace=${namespace}&open=${namespace}/${pod}&tab=${tab}`;

const browser = await launch();
try {
  const page = await openPage(browser, link);
  await page.getByRole('heading', { name: 'Overview' }).waitFor();

  await page.goto(at('talker', 'logs'));
  await page.getByText('2000 lines').waitFor();
  await page.getByRole('log').getByText('line 3000 中文').waitFor();
  const lines = await page.getByRole('log').evaluate((log) => log.textContent.split('\n').length);
  assert.ok(lines < 200, `only lines in sight are in the page, not ${lines}`);
  await page.getByRole('searchbox', { name: 'Search in the log' }).fill('line 2999');
  await page.getByText('1 lines').waitFor();
  await checkAccess(page, 'logs');
  await page.getByRole('searchbox', { name: 'Search in the log' }).fill('');
  await page.getByRole('log').getByText('line 3000 中文').waitFor();
  await shot(page, 'logs');
  console.log('ok: logs');

  await page.goto(at('talker', 'shell'));
  const terminal = page.locator('.xterm');
  await terminal.waitFor();
  await page.locator('.xterm-accessibility').getByText(/[#$]/).first().waitFor();
  const screen = () => terminal.locator('.xterm-rows').innerText();
  const says = async (text, what) => {
    const start = Date.now();
    while (!text.test(await screen())) {
      assert.ok(Date.now() - start < 15_000, `${what}: ${await screen()}`);
      await page.waitForTimeout(50);
    }
  };
  await page.keyboard.type("printf '\\344\\270\\255\\346\\226\\207-%s\\n' $((6*7))\n");
  await says(/中文-42/, 'UTF-8');
  await page.keyboard.type('stty size\n');
  await says(/\d+ \d+/, 'the size');
  const [, rows, columns] = /^(\d+) (\d+)$/m.exec(await screen());
  assert.ok(Number(columns) > 20 && Number(rows) > 5, `${rows} × ${columns}`);
  await page.setViewportSize({ width: 1200, height: 700 });
  await page.keyboard.type('clear; sleep 1; stty size\n');
  await says(new RegExp(`^(?!${rows} ${columns}$)\\d+ \\d+$`, 'm'), 'the size after a resize');
  await page.setViewportSize({ width: 1400, height: 900 });
  await page.keyboard.type('clear; ls -l / | head -20\n');
  await says(/etc/, 'a list');
  await checkAccess(page, 'shell');
  await shot(page, 'shell');
  await page.keyboard.type('exit 3\n');
  await page.getByText('exit code 3').waitFor();
  console.log('ok: shell');

  // A container of another image beside the pod's own, whose processes it sees.
  await page.goto(at('talker', 'summary'));
  await page.getByRole('button', { name: 'Debug', exact: true }).click();
  const debug = page.getByRole('region', { name: 'Debug container' });
  await debug.locator('input[list]').fill('minik8s.io/busybox:1');
  await debug.getByText(/kubectl debug -it pods\/talker .*--target=main -- sh/).waitFor();
  await checkAccess(page, 'debug');
  await shot(page, 'debug');
  await debug.getByRole('button', { name: 'Start and open a terminal' }).click();
  await page.waitForURL(/tab=shell.*run=debugger-1|run=debugger-1.*tab=shell/);
  await page.locator('.xterm').waitFor();
  await says(/[#$] *$/m, 'a prompt of the debug container');
  await page.keyboard.type('clear; ps | grep -c "[s]leep 1000"\n');
  await says(/^[12]$/m, 'processes of the target');
  await shot(page, 'debug-shell');
  console.log('ok: debug');

  // A page of a pod, at a host of its own.
  await page.goto(at('pages', 'summary'));
  await page.getByRole('button', { name: 'Forward', exact: true }).click();
  const forward = page.getByRole('region', { name: 'Open a port' });
  await forward.getByText(/kubectl port-forward pods\/pages .* :8080/).waitFor();
  assert.equal(await forward.locator('input').inputValue(), '8080');
  const [theirs] = await Promise.all([browser.waitForEvent('page'), forward.getByRole('button', { name: 'Open', exact: true }).click()]);
  await theirs.waitForFunction(() => document.title.startsWith('read:'));
  const host = new URL(theirs.url());
  assert.match(host.hostname, /^127\.(?!0\.0\.1$)/, 'a host of its own');
  assert.equal(host.pathname, '/', 'the link leaves the address');
  assert.equal(await theirs.title(), 'read:', 'its page reads no cookie');
  assert.equal(await theirs.evaluate(() => fetch('/cgi-bin/cookie').then((answer) => answer.text())), 'got:\n', 'no cookie reaches the pod');
  const stolen = await theirs.evaluate(async (base) => {
    const attempt = async (path, init) => fetch(base + path, init).then((answer) => `${answer.status}`, () => 'refused');
    return [await attempt('/api/v1/namespaces', { credentials: 'include' }), await attempt('/ui/forwards', { method: 'POST', credentials: 'include', mode: 'no-cors', body: '{}' })];
  }, base);
  assert.ok(stolen.every((answer) => answer === 'refused' || answer === '0' || answer === '401'), `a pod's page asks the dashboard: ${stolen}`);
  // Without the cookie, at another name, and with a used link there is nothing.
  const bare = async (path, headers = {}) => (await fetch(`${host.origin}${path}`, { headers })).status;
  assert.equal(await bare('/'), 401);
  assert.equal(await bare('/.minik8s-forward/guess'), 401);
  await theirs.close();
  await page.getByRole('button', { name: 'End pages:8080' }).waitFor();
  await checkAccess(page, 'forward');
  await shot(page, 'forward');
  await page.getByRole('button', { name: 'End pages:8080' }).click();
  await page.getByRole('button', { name: 'End pages:8080' }).waitFor({ state: 'detached' });
  await assert.rejects(bare('/'), 'nobody listens any more');
  console.log('ok: forward');

  // What is on the node, and how nodes compare for a pod that has its own.
  await page.goto(`${base}/ui/list?kind=nodes&open=${node}&tab=containers`);
  await page.getByRole('row', { name: new RegExp(`^pages running ${namespace}/pages`) }).waitFor();
  await shot(page, 'node-containers-real');
  await page.getByRole('tab', { name: 'Images' }).click();
  await page.getByRole('row', { name: /minik8s\.io\/busybox:1.*used by/ }).waitFor();
  await shot(page, 'node-images-real');
  await page.goto(at('talker', 'why'));
  await page.getByRole('button', { name: 'Show filters and scores of each node' }).click();
  await page.getByRole('row', { name: /here.*fits/ }).waitFor();
  await shot(page, 'compared-real');
  console.log('ok: node');

  // By the second: the newest point of the real node moves on, by a stream and not by asking again.
  let asked = 0;
  const count = (request) => (asked += request.url().includes('/series') ? 1 : 0);
  page.on('request', count);
  const stream = page.waitForEvent('websocket', (socket) => socket.url().includes('/series?watch=true'));
  await page.goto(at('talker', 'usage'));
  // Attached: the line of a pod that rests is flat, and what has no height is hidden by playwright's count.
  await page.locator('path.line').first().waitFor({ state: 'attached', timeout: 60_000 });
  const drawn = () => page.locator('path.line').first().getAttribute('d');
  const before = await drawn();
  const socket = await stream;
  await page.waitForFunction((known) => document.querySelector('path.line')?.getAttribute('d') !== known, before);
  for (let i = 0; i < 3; i++) await socket.waitForEvent('framereceived');
  assert.ok(asked <= 2 && !socket.isClosed(), `${asked} questions`);
  page.off('request', count);
  await checkAccess(page, 'usage');
  await shot(page, 'usage');
  console.log('ok: usage');

  await page.goto(at('broken', ''));
  await page.getByText('The container ends again and again').waitFor();
  await page.getByText(/exit code 3, \d+ restarts/).waitFor();
  await shot(page, 'why');
  await page.getByRole('button', { name: 'Logs: Previous run' }).click();
  await page.getByText('no luck').waitFor();
  console.log('ok: why');
  await page.goto(`${base}/ui/`);
  await page.getByRole('heading', { name: 'CPU' }).waitFor();
  await shot(page, 'overview-node');
  assert.equal(complaints.join('\n'), '', 'complaints');
} catch (error) {
  await shot(browser.pages().at(-1), 'failed-pod');
  console.error(complaints.join('\n'));
  throw error;
} finally {
  await browser.close();
}
