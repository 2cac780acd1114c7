// The pages for what minik8s has besides Kubernetes' own kinds: `node tests/own.mjs LINK [FOLDER]`, against the objects of
// crates/minik8s/tests/e2e/dashboard/own.yaml. No node runs here: what calls of functions answer is tested in pod.mjs.
import assert from 'node:assert/strict';
import { camera, checkLooks, complaints, launch, openPage, runSteps } from './browser.mjs';

const [link, folder] = process.argv.slice(2);
const base = new URL(link).origin;
const shot = camera(folder);
const browser = await launch();

/** Waits until text is in a text field. */
const holds = (page, text) => page.waitForFunction((wanted) => document.querySelector('.editor textarea')?.value.includes(wanted), text);

/** An hour of a container, as a server that measures answers. */
function answerSeries(route) {
  const since = Number(new URL(route.request().url()).searchParams.get('since'));
  const now = Date.now();
  const times = [...Array.from({ length: 118 }, (_, i) => now - 3_600_000 + i * 30_000), ...Array.from({ length: 60 }, (_, i) => now - 59_000 + i * 1000)];
  const points = times.filter((at) => at > since).map((at) => [at, Math.round(2.5e8 + 1.5e8 * Math.sin(at / 9e4)), Math.round(60e6 + 2e7 * Math.cos(at / 2e5))]);
  return route.fulfill({ json: { items: [{ name: 'db', points }] } });
}

/** Two calls of a function, as a server with a node answers. */
function answerCalls(route) {
  const call = (age, status, cold, milliseconds, waitedMilliseconds) => ({
    at: new Date(Date.now() - age).toISOString(), method: 'POST', status, cold, milliseconds, waitedMilliseconds, revision: 2, pod: 'greet-1', node: 'node1',
  });
  return route.fulfill({ json: { items: [call(3000, 200, false, 2.31, 0.04), call(9000, 500, true, 341.2, 330.4)], unreachable: ['node2'] } });
}

const steps = {
  async 'menu leads to the pages'() {
    const page = await openPage(browser, link);
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    for (const [name, path] of [['Functions', 'functions'], ['Workflows', 'workflows'], ['GPU jobs', 'gpu'], ['Storage and its use', 'storage']]) {
      await page.getByRole('link', { name, exact: true }).click();
      await page.waitForURL(`**/ui/${path}*`);
      await page.locator('main h1').waitFor();
    }
    await page.close();
  },

  async 'function is made, edited and deployed'() {
    const page = await openPage(browser, `${base}/ui/functions?namespace=lab`);
    await page.getByRole('heading', { name: 'New function' }).waitFor();
    await page.getByLabel('Name', { exact: true }).fill('Bad Name');
    await page.getByRole('button', { name: 'Deploy' }).click();
    assert.ok(await page.getByLabel('Name', { exact: true }).evaluate((field) => !field.validity.valid), 'the name is looked at');
    await page.getByLabel('Name', { exact: true }).fill('shout');
    await page.getByLabel('Runtime').selectOption('nodejs');
    await holds(page, 'exports.main');
    await page.getByRole('button', { name: 'Deploy' }).click();
    await page.waitForURL(/open=lab%2Fshout/);
    await page.getByText('As deployed').waitFor();
    const editor = page.getByRole('textbox', { name: 'Code' });
    await editor.fill((await editor.inputValue()).replace('hello:', 'HELLO:'));
    await page.getByText('Changed, not deployed').waitFor();
    await page.getByRole('button', { name: 'Deploy' }).click();
    await page.getByText('As deployed').waitFor();
    await page.reload();
    await holds(page, 'HELLO:');
    await page.close();
  },

  async 'function is called, and refuses what is no JSON'() {
    const page = await openPage(browser, `${base}/ui/functions?open=lab/greet`);
    await holds(page, '<img src=x onerror=alert(1)>');
    assert.equal(await page.locator('img[src="x"]').count(), 0, 'code is text');
    const input = page.getByLabel('Input (JSON)');
    await input.fill('{"name": ');
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await page.getByText(/This is not JSON/).waitFor();
    await input.fill('{"name": "you"}');
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await page.getByRole('region', { name: 'Answer' }).getByText('{"name": "you"}').waitFor();
    await page.getByRole('heading', { name: 'Last calls' }).waitFor();
    await page.locator('li button').filter({ hasText: /Pending|Running|Failed/ }).first().waitFor();
    await page.getByText('No call is remembered.').waitFor();
    // As a cluster with nodes tells it.
    await page.route('**/functions/greet/calls', answerCalls);
    await page.getByRole('row', { name: /POST 200 warm 2\.3 ms 0\.0 ms 2 node1/ }).waitFor();
    await page.getByRole('row', { name: /POST 500 cold 341 ms 330 ms 2 node1/ }).waitFor();
    await page.getByText('Node node2 does not answer').waitFor();
    await page.getByRole('tab', { name: 'Logs' }).click();
    await page.getByText(/No instance runs|This container has not written|pods/).first().waitFor();
    await page.close();
  },

  async 'workflow takes one path or the other, lit and step by step'() {
    const page = await openPage(browser, `${base}/ui/workflows?open=lab/add-or-multiply`);
    const run = async (input) => {
      await page.getByLabel('Input of the run (JSON)').fill(input);
      await page.getByRole('button', { name: /Run$/ }).click();
    };
    await page.getByRole('img', { name: /^Judge, Choice/ }).waitFor();
    await run('{"a": 5,');
    await page.getByText(/This is not JSON/).waitFor();
    await run('{"a": 5, "b": 3}');
    await page.getByRole('img', { name: 'Enough, Succeed left' }).waitFor();
    await page.getByText('Step 3 of 3').waitFor();
    await page.getByRole('img', { name: 'Multiply, Pass dark' }).waitFor();
    await run('{"a": 5, "b": 7}');
    await page.getByRole('img', { name: 'Multiply, Pass left' }).waitFor();
    await page.getByRole('img', { name: 'Enough, Succeed dark' }).waitFor();
    await page.locator('.step pre').filter({ hasText: /^35$/ }).waitFor();
    await page.getByRole('button', { name: 'First step' }).click();
    await page.getByText('Step 1 of 3').waitFor();
    await page.getByRole('img', { name: 'Judge, Choice dark' }).waitFor();
    await page.locator('.step pre').filter({ hasText: '"sum": 12' }).waitFor();
    await page.getByRole('button', { name: 'Next step' }).click();
    await page.getByRole('img', { name: 'Judge, Choice entered' }).waitFor();
    await shot(page, 'workflow-replay');
    await page.getByRole('button', { name: 'Play' }).click();
    await page.getByText('Step 3 of 3').waitFor();
    assert.equal(await page.locator('.runs ul li').count(), 2);
    await page.close();
  },

  async 'failed run says where and why, and is stopped or redriven'() {
    const page = await openPage(browser, `${base}/ui/workflows?open=lab/order`);
    await page.getByLabel('Input of the run (JSON)').fill('{"express": true}');
    await page.getByRole('button', { name: /Run$/ }).click();
    await page.getByRole('img', { name: /^Prepare, Parallel left/ }).waitFor();
    await page.getByRole('img', { name: /^Bill, Pass left/ }).waitFor();
    await page.getByRole('img', { name: /^Courier, Task (entered|failed)/ }).waitFor();
    await shot(page, 'workflow-branches');
    await page.getByText(/States\.Timeout/).first().waitFor({ timeout: 60_000 });
    await page.getByRole('button', { name: 'Go on from where it failed' }).click();
    await page.getByText('Running').first().waitFor();
    await page.close();
  },

  async 'workflow is drawn with the mouse and with the keyboard'() {
    const page = await openPage(browser, `${base}/ui/workflows?namespace=lab&tab=new`);
    await page.getByLabel('Name', { exact: true }).fill('drawn');
    await page.getByRole('button', { name: 'Create' }).click();
    await page.waitForURL(/open=lab%2Fdrawn/);
    await page.getByRole('button', { name: 'Edit', exact: true }).click();
    // By keyboard: a state after Add.
    await page.getByRole('button', { name: 'Add, Pass' }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: '+ Wait' }).focus();
    await page.keyboard.press('Enter');
    await page.getByLabel('Name of the state').fill('Breathe');
    await page.getByLabel('Name of the state').press('Enter');
    await holds(page, '"Next": "Breathe"');
    await page.getByLabel('Seconds').fill('0');
    await page.getByLabel('Seconds').press('Tab');
    await holds(page, '"Seconds": 0');
    // By mouse: from Multiply to Enough.
    const port = page.locator('circle.port');
    const box = await page.getByRole('button', { name: 'Multiply, Pass' }).boundingBox();
    const target = await page.getByRole('button', { name: 'Enough, Succeed' }).boundingBox();
    assert.ok(box && target && (await port.count()) > 2);
    await page.mouse.move(box.x + box.width / 2, box.y + box.height);
    await page.mouse.down();
    await page.mouse.move(target.x + 20, target.y + 20, { steps: 5 });
    await page.mouse.up();
    await page.waitForFunction(() => JSON.parse(document.querySelector('.editor textarea').value).States.Multiply.Next === 'Enough');
    // A condition on an edge, and the text that follows.
    await page.getByRole('button', { name: 'Judge, Choice' }).click();
    await page.getByLabel('If 1').fill('{% $states.input.sum >= 20 %}');
    await page.getByLabel('If 1').press('Tab');
    await holds(page, 'sum >= 20');
    await page.locator('.tag-text').filter({ hasText: 'sum >= 20' }).waitFor();
    // The drawing follows the text, and stays while the text is broken.
    const editor = page.getByRole('textbox', { name: 'Definition' });
    const good = await editor.inputValue();
    await editor.fill(good.replace('"StartAt": "Add"', '"StartAt": Add'));
    await page.getByText(/This text is no JSON yet/).waitFor();
    await page.getByRole('button', { name: 'Judge, Choice' }).waitFor();
    await editor.fill(good.replaceAll('Enough', 'Plenty'));
    await page.getByRole('button', { name: 'Plenty, Succeed' }).waitFor();
    // The server judges: a state that nothing leads to.
    await editor.fill(good.replace('"Default": "Enough"', '"Default": "Nowhere"'));
    await page.getByRole('button', { name: 'Check' }).click();
    await page.getByText(/MISSING_TRANSITION_TARGET/).waitFor();
    await page.locator('.gutter .wrong').waitFor();
    await editor.fill(good.replaceAll('$states.input.a * $states.input.b', "{'sum': $states.input.a * $states.input.b}"));
    await page.getByRole('button', { name: 'Check' }).click();
    await page.getByText('The server accepts this definition.').waitFor();
    await shot(page, 'workflow-editor');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Saved.').waitFor();
    await page.getByLabel('Input of the run (JSON)').fill('{"a": 5, "b": 20}');
    await page.getByRole('button', { name: /Run$/ }).click();
    await page.getByRole('img', { name: 'Enough, Succeed left' }).waitFor();
    await page.locator('.step pre').filter({ hasText: /^100$/ }).waitFor();
    await page.getByText('Step 5 of 5').waitFor();
    await page.close();
  },

  async 'charts show use by the second, with the limit'() {
    const page = await openPage(browser);
    await page.route('**/pods/database/series*', answerSeries);
    await page.goto(`${base}/ui/list?kind=pods&open=lab/database&tab=usage`);
    await page.getByRole('img', { name: 'CPU' }).waitFor();
    await page.getByText('limit 500m').or(page.getByText('limit 0.5')).first().waitFor();
    const width = async () => (await page.locator('path.line').first().getAttribute('d')).length;
    await page.getByRole('button', { name: 'Last hour' }).click();
    await page.waitForFunction(() => document.querySelector('path.line').getAttribute('d').split('L').length > 100);
    assert.ok((await width()) > 100);
    await page.getByText('As a table').first().click();
    await page.getByRole('columnheader', { name: 'db' }).first().waitFor();
    // What the server says when nobody measures, or it is another Kubernetes.
    await page.unroute('**/pods/database/series*');
    await page.reload();
    await page.getByText(/Nothing was measured yet|no figures over time/).waitFor();
    await page.close();
  },

  async 'storage tells who uses what'() {
    const page = await openPage(browser, `${base}/ui/storage`);
    const claims = page.getByRole('region', { name: 'Claims' });
    await claims.getByRole('link', { name: 'database' }).waitFor();
    await claims.getByRole('row', { name: /^archive.*Bound.*5Gi.*by-hand/ }).waitFor();
    await claims.getByRole('row', { name: /^data.*Pending/ }).waitFor();
    await page.getByRole('region', { name: 'Volumes' }).getByRole('row', { name: /^shelf.*Bound.*lab\/archive/ }).waitFor();
    await page.getByRole('region', { name: 'Classes' }).getByRole('row', { name: /local.*default/ }).waitFor();
    await page.getByText('1 of 2 claims have their volume').waitFor();
    await claims.getByRole('link', { name: 'database' }).click();
    await page.getByRole('heading', { name: 'database' }).waitFor();
    await page.close();
  },

  async 'GPU job tells how far it is, and is cancelled'() {
    const page = await openPage(browser, `${base}/ui/gpu?open=lab/matmul`);
    await page.getByRole('heading', { name: 'matmul' }).waitFor();
    await page.locator('.stages .now').filter({ hasText: 'Pending' }).waitFor();
    await page.getByText('matmul.cu', { exact: true }).click();
    await page.getByText('<script>alert(1)</script>').waitFor();
    await page.getByRole('button', { name: 'Cancel the job' }).click();
    await page.getByText('The job is being cancelled.').waitFor();
    await page.close();
  },
};

const LOOKS = [
  {
    name: 'function', path: '/ui/functions?open=lab/greet', ready: '.editor textarea',
    prepare: async (page) => {
      await page.route('**/functions/greet/calls', answerCalls);
      await page.locator('.side td').first().waitFor();
    },
  },
  { name: 'function-new', path: '/ui/functions?tab=new', ready: '.editor textarea' },
  { name: 'workflow', path: '/ui/workflows?open=lab/order', ready: 'svg .state' },
  {
    name: 'workflow-edit', path: '/ui/workflows?open=lab/order', ready: 'svg .state',
    prepare: async (page) => {
      await page.getByRole('button', { name: /^(Edit|编辑)$/ }).click();
      await page.getByRole('button', { name: 'Decide, Choice' }).click();
    },
  },
  { name: 'workflow-run', path: '/ui/workflows?open=lab/add-or-multiply&tab=runs', ready: '.replay .state' },
  { name: 'storage', path: '/ui/storage', ready: 'tbody a' },
  {
    name: 'usage', path: '/ui/list?kind=pods&open=lab/database&tab=usage', ready: '[role=tabpanel]',
    prepare: async (page) => {
      await page.route('**/pods/database/series*', answerSeries);
      await page.reload();
      await page.locator('path.line').first().waitFor();
      await page.getByRole('button', { name: /Last hour|最近一小时/ }).click();
    },
  },
  { name: 'gpu', path: '/ui/gpu', ready: '.start, .list li' },
  { name: 'gpu-job', path: '/ui/gpu?open=lab/matmul', ready: '.stages' },
];

try {
  await runSteps(browser, steps, shot);
  await checkLooks(browser, base, LOOKS, shot);
  assert.equal(complaints.join('\n'), '', 'complaints');
  console.log('all pages are well');
} finally {
  await browser.close();
}
