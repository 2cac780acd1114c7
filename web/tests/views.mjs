// The mesh, autoscaling, the past, rights, drains and why pods wait: `node tests/views.mjs LINK [FOLDER]`, against the objects
// of crates/minik8s/tests/e2e/dashboard/views.yaml. No machine runs here, so traffic and measured load are played by this script;
// that the server tells them is tested where pods run.
import assert from 'node:assert/strict';
import { camera, checkAccess, checkLooks, complaints, launch, openPage, runSteps } from './browser.mjs';

const [link, folder] = process.argv.slice(2);
const base = new URL(link).origin;
const shot = camera(folder);
const browser = await launch();

/** A shop's traffic, as proxies would tell it. */
function answerTraffic(route) {
  const edge = (source, service, requestsPerSecond, errorsPerSecond, p50Milliseconds, p99Milliseconds) => ({
    source: `shop/${source}`, service: `shop/${service}`, requests: requestsPerSecond * 600, errors: errorsPerSecond * 600,
    windowSeconds: 10, requestsPerSecond, errorsPerSecond, p50Milliseconds, p99Milliseconds,
  });
  return route.fulfill({
    json: {
      kind: 'MeshTrafficList',
      items: [
        edge('ingress', 'web', 120.4, 0, 2.5, 25), edge('web', 'cart', 80.2, 0.4, 5, 50), edge('web', 'catalogue', 41.7, 0, 1, 10),
        edge('cart', 'payments', 9.1, 1.2, 25, 500), edge('cart', 'stock', 30.5, 0, 2.5, 10), edge('stock', 'cart', 0.5, 0, 2.5, 10),
        edge('report', 'catalogue', 0, 0),
      ],
    },
  });
}

const NOW = Date.now();

function answerBacktest(route) {
  const points = Array.from({ length: 360 }, (_, i) => {
    const peak = i > 120 && i < 240;
    return [NOW - (360 - i) * 10_000, peak ? 5 : 2, peak ? 7 : 2, peak ? 1.02 + 0.2 * Math.sin(i / 9) : 0.4, peak ? 0.73 + 0.14 * Math.sin(i / 9) : 0.4];
  });
  const changes = [{ at: points[121][0], from: 2, to: 7, reason: 'cpu resource utilization (percentage of request) above target' }, { at: points[240][0], from: 7, to: 2, reason: 'All metrics below target' }];
  const real = { changes: 2, least: 2, most: 5, podHours: 3 };
  return route.fulfill({ json: { real, simulated: { ...real, most: 7, podHours: 3.66 }, points, changes } });
}

function answerDecision(route) {
  const pods = ['web-1', 'web-2', 'web-3'].map((name, i) => ({ name, state: 'measured', amount: `${70 + i * 12}m`, request: '100m' }));
  return route.fulfill({
    json: {
      at: new Date(NOW).toISOString(), target: 'Deployment/web', replicas: 3, minReplicas: 2, maxReplicas: 8, wish: 5, desired: 5,
      limited: 'the desired replica count is increasing faster than the maximum scale rate',
      verdict: 'from 3 to 5 replicas: cpu resource utilization (percentage of request) above target',
      metrics: [{ name: 'cpu', target: '50%', current: '82% (82m a pod)', ratio: 1.64, tolerance: [0.1, 0.1], proposal: 5, pods }],
    },
  });
}

const DIGEST = 'ab'.repeat(32);

/** A node with two pods, a warm slot, somebody's database, and images. */
function answerContainers(route) {
  const container = (name, owner, more) => ({ id: `${name}-${DIGEST}`, name, state: 'running', pid: 4711, image: 'docker.io/library/nginx:1.27', created: new Date(NOW - 3_600_000).toISOString(), owner, runtimeNamespace: 'k8s.io', ...more });
  return route.fulfill({
    json: {
      problems: [],
      containers: [
        container('web', 'pod', { podNamespace: 'shop', podName: 'web-1' }), container('sandbox', 'sandbox', { podNamespace: 'shop', podName: 'web-1', image: 'minik8s.io/pause:1' }),
        container('proxy', 'pod', { podNamespace: 'shop', podName: 'web-1', image: `quay.io/mesh/proxy@sha256:${DIGEST}` }),
        container('python', 'agent', { image: 'minik8s.io/python:3.11' }),
        container('0123456789ab', 'foreign', { runtimeNamespace: 'moby', runtime: '/run/containerd/containerd.sock', image: 'docker.io/library/postgres:16', pid: 99 }),
        container('backup', 'foreign', { runtimeNamespace: 'default', state: 'stopped', pid: undefined }),
      ],
    },
  });
}

let removed = '';

function answerImages(route) {
  const { searchParams } = new URL(route.request().url());
  const image = (name, size, usedBy, pulled) => ({ id: `sha256:${DIGEST}${size}`, names: [name], size: size * 2 ** 20, usedBy, pulled });
  const old = image('docker.io/library/nginx:1.25', 180, [], true);
  const made = image('localhost/trial:7', 64, [], false);
  const all = [image('docker.io/library/nginx:1.27', 190, ['shop/web-1', 'shop/web-2', 'shop/web-3', 'shop/web-4'], true), old, made, image('minik8s.io/pause:1', 1, ['every pod'], false)];
  if (route.request().method() === 'GET') {
    return route.fulfill({ json: { images: removed ? all.filter((one) => one !== old) : all, disk: { capacity: 80 * 2 ** 30, available: 21 * 2 ** 30 } } });
  }
  const going = searchParams.get('all') ? [old, made] : [old];
  if (!searchParams.get('dryRun')) removed = route.request().url();
  return route.fulfill({ json: { removed: going, failed: [], freedBytes: going.reduce((sum, one) => sum + one.size, 0) } });
}

async function play(page) {
  await page.route('**/node.minik8s.io/v1/nodes/*/containers', answerContainers);
  await page.route('**/node.minik8s.io/v1/nodes/*/images*', answerImages);
  await page.route('**/meshtraffic*', answerTraffic);
  await page.route('**/scalingdecisions/web/backtest*', answerBacktest);
  await page.route('**/scalingdecisions/web', answerDecision);
}

const steps = {
  async 'mesh without traffic says so, with traffic it is drawn'() {
    const page = await openPage(browser, link);
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    await page.getByRole('link', { name: 'Mesh', exact: true }).click();
    await page.getByText('No requests between pods and Services yet').waitFor();
    await play(page);
    await page.getByRole('img', { name: /shop\/web → shop\/cart: 80\.2\/s, Errors 0\.5 %, p99 <50 ms/ }).waitFor();
    const left = async (name) => (await page.getByRole('img', { name }).boundingBox()).x;
    assert.ok((await left(/^shop\/ingress,/)) < (await left(/^shop\/web,/)), 'callers are on the left');
    assert.ok((await left(/^shop\/web,/)) < (await left(/^shop\/cart,/)));
    await page.getByText('As a table').click();
    await page.getByRole('row', { name: /shop\/cart shop\/payments 9\.1\/s 13 %/ }).waitFor();
    await shot(page, 'mesh');
    await page.close();
  },

  async 'canary is moved, acknowledged and rolled back'() {
    const page = await openPage(browser, `${base}/ui/mesh?namespace=shop`);
    const canary = page.getByRole('region', { name: 'cart cart' });
    const slider = canary.getByRole('slider', { name: 'Share of cart-v2' });
    assert.equal(await slider.inputValue(), '10');
    await slider.focus();
    for (let i = 0; i < 15; i++) await page.keyboard.press('ArrowRight');
    await canary.getByText(/75 %\s*← 90 %/).waitFor();
    await canary.getByText(/mesh split cart cart-v1=75 cart-v2=25/).waitFor();
    await canary.getByRole('button', { name: 'Apply' }).click();
    await page.getByText('The split is set.').waitFor();
    await canary.getByText(/\d+ of \d+ proxies route so/).waitFor();
    await canary.getByRole('button', { name: 'Roll back to cart-v1 90 %, cart-v2 10 %' }).click();
    await canary.getByRole('button', { name: 'Roll back to cart-v1 75 %, cart-v2 25 %' }).waitFor();
    assert.equal(await slider.inputValue(), '10');
    await page.close();
  },

  async 'autoscaler tells its decision, and plays another spec through'() {
    const page = await openPage(browser, `${base}/ui/list?kind=horizontalpodautoscalers.autoscaling&open=shop/web`);
    // The server's own words: nothing is measured here.
    await page.getByRole('button', { name: 'Play through' }).click();
    await page.getByText(/nothing is remembered of the pods that web scales/).waitFor();
    await play(page);
    await page.getByText('from 3 to 5 replicas').waitFor();
    await page.getByText('3 pods, what was measured of each').click();
    await page.getByText('94m').waitFor();
    await page.getByLabel('Target %').fill('35');
    await page.getByText(/why hpa\/web -n shop --backtest target=35/).waitFor();
    const asked = page.waitForRequest(/backtest/);
    await page.getByRole('button', { name: 'Play through' }).click();
    assert.match(decodeURIComponent((await asked).url()), /"averageUtilization":35/);
    await page.getByText('0.66 pod-hours more.').waitFor();
    await page.getByRole('img', { name: 'Replicas' }).waitFor();
    await shot(page, 'backtest');
    await page.getByRole('button', { name: 'Apply' }).click();
    await page.getByText('Applied.').waitFor();
    await page.close();
  },

  async 'deleted object is there in the past'() {
    const page = await openPage(browser);
    const history = page.waitForResponse((response) => new URL(response.url()).pathname === '/history');
    await page.goto(`${base}/ui/past?kind=configmaps&namespace=shop`);
    const { moments } = await (await history).json();
    await page.getByText(/it reaches back/).waitFor();
    const shows = async (at) => {
      await page.locator(`[data-version="${moments[at][1]}"]`).waitFor();
      // Drawn as well.
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    };
    const ghost = page.getByRole('button', { name: 'ghost', exact: true });
    const earlier = page.getByRole('button', { name: 'Earlier' });
    const slider = page.getByRole('slider', { name: 'Time' });
    await slider.focus();
    await page.keyboard.press('End');
    await shows(moments.length - 1);
    // From when these steps began, and back until it had not been deleted. The next moment is asked for when the last one is
    // there: what is asked for meanwhile is given up.
    let at = Math.max(0, moments.findLastIndex(([time]) => time <= NOW));
    await slider.fill(String(at));
    await shows(at);
    while (at > 0 && !(await ghost.isVisible())) {
      await earlier.click();
      await shows(--at);
    }
    await page.getByRole('row', { name: /gone.*ghost/ }).waitFor();
    await ghost.click();
    await page.getByText('It is gone now.').waitFor();
    await page.getByText(/- +wisdom: all of it/).waitFor();
    await page.getByRole('checkbox', { name: 'only what is different' }).check();
    await shot(page, 'past');
    await page.close();
  },

  async 'rights are a matrix, and say who has them'() {
    const page = await openPage(browser, `${base}/ui/access?namespace=shop`);
    await page.getByRole('row', { name: /^Pod allowed allowed allowed allowed/ }).waitFor();
    const who = page.getByRole('region', { name: 'Who may …' });
    await who.getByText('Group system:masters').waitFor();
    await who.getByLabel('Verb').selectOption('get');
    await who.getByText(/system:kube-scheduler/).first().waitFor();
    await page.close();
  },

  async 'pod that waits is told why node by node, and a click helps'() {
    const page = await openPage(browser, `${base}/ui/list?kind=pods&namespace=shop&open=shop/picky`);
    await page.getByText('Smallest change, for node sim-0001').waitFor();
    await page.getByRole('row', { name: /sim-0000.*affinity/ }).waitFor();
    await shot(page, 'why-nodes');
    await page.getByRole('button', { name: 'Uncordon sim-0001' }).click();
    await page.getByRole('row', { name: /picky.*Running/ }).waitFor({ timeout: 60_000 });
    await page.close();
  },

  async 'node is drained, pod by pod'() {
    const page = await openPage(browser, `${base}/ui/list?kind=nodes&open=sim-0000`);
    await page.getByRole('button', { name: 'Drain', exact: true }).click();
    const drain = page.getByRole('region', { name: 'Drain sim-0000' });
    await drain.getByRole('button', { name: 'Drain', exact: true }).click();
    await drain.getByText('The node is empty.').waitFor({ timeout: 60_000 });
    await shot(page, 'drain');
    await drain.getByRole('button', { name: 'Close' }).click();
    await page.getByRole('button', { name: 'Uncordon' }).first().click();
    await page.close();
  },

  async 'containers and images of a node are listed, and unused images go'() {
    const page = await openPage(browser);
    await page.route('**/node.minik8s.io/v1/nodes/*/containers', (route) => route.fulfill({ status: 403, json: { message: 'nodes/containers is forbidden' } }));
    await page.goto(`${base}/ui/list?kind=nodes&open=sim-0000&tab=containers`);
    await page.getByText('The node does not tell').waitFor();
    await page.getByText('nodes/containers is forbidden').waitFor();
    await play(page);
    await page.reload();
    await page.getByText('4 of 5 containers run; 2 are not of this cluster.').waitFor();
    await page.getByRole('row', { name: /web running shop\/web-1 nginx:1\.27/ }).waitFor();
    await page.getByLabel('only those that are not of this cluster').check();
    await page.getByRole('row', { name: /0123456789ab running foreign moby.*postgres:16/ }).waitFor();
    assert.equal(await page.getByRole('tabpanel').locator('tbody tr').count(), 2);
    await page.getByRole('tab', { name: 'Images' }).click();
    await page.getByText('4 images, 435 MiB; 2 unused, 244 MiB.').waitFor();
    assert.equal(await page.getByRole('tabpanel').getByRole('button', { name: /^Delete/ }).count(), 2, 'what is used has no button');
    await page.getByRole('button', { name: 'Remove unused …' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('This frees 180 MiB at most').waitFor();
    await dialog.getByLabel(/also images that were loaded/).check();
    await dialog.getByText('This frees 244 MiB at most').waitFor();
    await dialog.getByText('kubectl delete --raw').waitFor();
    await checkAccess(page, 'prune');
    await shot(page, 'node-prune');
    await dialog.getByLabel(/also images that were loaded/).uncheck();
    await dialog.getByText('This frees 180 MiB at most').waitFor();
    await dialog.getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByText('1 images are gone').waitFor();
    assert.match(removed, /\/nodes\/sim-0000\/images$/);
    await page.getByText('3 images').waitFor();
    await page.close();
  },

  async 'nodes are compared score by score, for a pod that has its own'() {
    const page = await openPage(browser, `${base}/ui/list?kind=pods&namespace=shop&filter=web-`);
    await page.getByRole('button', { name: /^web-/ }).first().click();
    await page.getByRole('tab', { name: /^Why/ }).click();
    await page.getByRole('button', { name: 'Show filters and scores of each node' }).click();
    const table = page.getByRole('region', { name: 'How nodes compare now' });
    await table.getByText('Strategy: balanced.').waitFor();
    await table.getByRole('columnheader', { name: /LeastAllocated weight 1/ }).waitFor();
    await table.getByRole('row', { name: /sim-000\d here.*fits/ }).waitFor();
    // Not only the one that it has: the other is compared as well.
    assert.equal(await table.getByRole('row', { name: /sim-000\d .*fits/ }).count(), 2);
    await shot(page, 'compared');
    await page.close();
  },

  async 'several objects are changed and deleted at once'() {
    const page = await openPage(browser, `${base}/ui/list?kind=configmaps&namespace=shop&filter=heap-`);
    await page.getByLabel('Select heap-a').check();
    await page.getByLabel('Select heap-b').check();
    const bar = page.getByRole('toolbar', { name: '2 selected' });
    await bar.getByRole('button', { name: 'Label' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel(/KEY=VALUE/).fill('team');
    assert.ok(await dialog.getByRole('button', { name: 'Label', exact: true }).isDisabled());
    await dialog.getByLabel(/KEY=VALUE/).fill('team=shop');
    await dialog.getByText('kubectl label --overwrite configmaps heap-a heap-b -n shop team=shop').waitFor();
    await checkAccess(page, 'bulk');
    await dialog.getByRole('button', { name: 'Label', exact: true }).click();
    await bar.waitFor({ state: 'detached' });
    await page.getByRole('searchbox').fill('team=shop');
    await page.getByText(/^2 of \d+$/).waitFor();
    await page.getByRole('searchbox').fill('heap-');
    await page.getByLabel('Select all that are shown').check();
    await page.getByRole('toolbar', { name: '3 selected' }).getByRole('button', { name: 'Delete' }).click();
    await page.getByText('kubectl delete configmaps heap-a heap-b heap-c -n shop').waitFor();
    assert.ok(await dialog.getByRole('button', { name: 'Delete', exact: true }).isDisabled(), 'many go only after a word');
    await dialog.getByLabel('Type 3 to confirm').fill('3');
    await dialog.getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByText('Nothing matches').waitFor();
    // By keyboard, with what the server refuses told.
    await page.goto(`${base}/ui/list?kind=namespaces&filter=kube-system`);
    await page.getByRole('button', { name: 'kube-system', exact: true }).waitFor();
    await page.keyboard.press('j');
    await page.keyboard.press(' ');
    await page.getByRole('toolbar', { name: '1 selected' }).getByRole('button', { name: 'Delete' }).click();
    await dialog.getByRole('button', { name: 'Delete', exact: true }).click();
    await dialog.getByText(/kube-system.*forbidden/).waitFor();
    await page.close();
  },

  async 'columns are chosen and remembered'() {
    const page = await openPage(browser, `${base}/ui/list?kind=pods&namespace=shop`);
    await page.getByText('Columns', { exact: true }).click();
    await page.getByLabel('Restarts').uncheck();
    await page.getByLabel('Node', { exact: true }).check();
    await checkAccess(page, 'columns');
    await shot(page, 'columns');
    await page.reload();
    await page.getByRole('columnheader', { name: 'Node', exact: true }).waitFor();
    assert.equal(await page.getByRole('columnheader', { name: 'Restarts' }).count(), 0);
    await page.getByText('Columns', { exact: true }).click();
    await page.getByRole('button', { name: 'As the server has it' }).click();
    await page.getByRole('columnheader', { name: 'Restarts' }).waitFor();
    await page.close();
  },

  async 'letters open what k9s opens'() {
    const page = await openPage(browser, `${base}/ui/list?kind=pods&namespace=shop`);
    await page.getByRole('button', { name: /^web-/ }).first().waitFor();
    await page.keyboard.press('j');
    await page.keyboard.press('y');
    await page.waitForURL(/tab=yaml/);
    await page.keyboard.press('w');
    await page.waitForURL(/tab=why/);
    await page.keyboard.press('Escape');
    await page.keyboard.press(':');
    await page.keyboard.type('mesh');
    await page.getByRole('option', { name: 'Mesh' }).first().click();
    await page.waitForURL(/ui\/mesh/);
    await page.close();
  },
};

const LOOKS = [
  { name: 'mesh', path: '/ui/mesh?namespace=shop', ready: 'svg .rate', before: play },
  {
    name: 'scaling', path: '/ui/list?kind=horizontalpodautoscalers.autoscaling&open=shop/web&tab=scaling', ready: '.verdict', before: play,
    prepare: async (page) => {
      await page.getByRole('button', { name: /Play through|开始回测/ }).click();
      await page.locator('path.line').first().waitFor();
      await page.locator('figure').last().scrollIntoViewIfNeeded();
    },
  },
  { name: 'past', path: '/ui/past?kind=configmaps&namespace=shop&open=shop/settings', ready: '.difference' },
  { name: 'node-containers', path: '/ui/list?kind=nodes&open=sim-0000&tab=containers', ready: '.foreign', before: play },
  { name: 'node-images', path: '/ui/list?kind=nodes&open=sim-0000&tab=images', ready: '[role=tabpanel] tbody tr', before: play },
  {
    name: 'compared', path: '/ui/list?kind=pods&namespace=shop&open=shop/picky&tab=why', ready: '[role=tabpanel] button',
    prepare: async (page) => {
      await page.getByRole('button', { name: /^(Show filters and scores|显示各节点的过滤与打分)/ }).click();
      await page.locator('meter').first().waitFor();
    },
  },
  {
    name: 'forward', path: '/ui/list?kind=pods&namespace=shop&open=shop/picky&tab=summary', ready: '.actions',
    prepare: async (page) => {
      await page.getByRole('button', { name: /^(Forward|转发)$/ }).click();
      await page.locator('#forward-ports').waitFor({ state: 'attached' });
    },
  },
  {
    name: 'debug', path: '/ui/list?kind=pods&namespace=shop&open=shop/picky&tab=summary', ready: '.actions',
    prepare: async (page) => {
      await page.getByRole('button', { name: /^(Debug|调试)$/ }).click();
      await page.locator('#debug-images').waitFor({ state: 'attached' });
    },
  },
  { name: 'access', path: '/ui/access?namespace=shop', ready: 'tbody .yes' },
];

try {
  await runSteps(browser, steps, shot);
  await checkLooks(browser, base, LOOKS, shot);
  assert.equal(complaints.join('\n'), '', 'complaints');
  console.log('all pages are well');
} finally {
  await browser.close();
}
