// The mesh, autoscaling, the past, rights, drains and why pods wait: `node tests/views.mjs LINK [FOLDER]`, against the objects
// of crates/minik8s/tests/dashboard/views.yaml. No machine runs here, so traffic and measured load are played by this script;
// that the server tells them is tested where pods run.
import assert from 'node:assert/strict';
import { camera, checkLooks, complaints, launch, openPage, runSteps } from './browser.mjs';

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

async function play(page) {
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
    const page = await openPage(browser, `${base}/ui/past?kind=configmaps&namespace=shop`);
    await page.getByText(/it reaches back/).waitFor();
    const ghost = page.getByRole('button', { name: 'ghost', exact: true });
    const earlier = page.getByRole('button', { name: 'Earlier' });
    const slider = page.getByRole('slider', { name: 'Time' });
    await slider.focus();
    await page.keyboard.press('End');
    // Back, until it had not been deleted.
    for (let i = 0; i < 400 && !(await ghost.isVisible()) && (await earlier.isEnabled()); i++) {
      const read = page.waitForResponse(/resourceVersionMatch=Exact/);
      await earlier.click();
      const version = new URL((await read).url()).searchParams.get('resourceVersion');
      await page.locator(`[data-version="${version}"]`).waitFor();
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
