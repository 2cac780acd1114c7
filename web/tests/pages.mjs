// Every page of the dashboard in a real browser, against a real server: `node tests/pages.mjs LINK [FOLDER]`. LINK is
// what `minik8s dashboard --print-url` printed; screenshots go to FOLDER. crates/minik8s/tests/e2e/dashboard makes the
// cluster that is looked at.
import assert from 'node:assert/strict';
import { camera, checkAccess, checkLooks, complaints, launch, openPage } from './browser.mjs';

const [link, folder] = process.argv.slice(2);
const base = new URL(link).origin;
const shot = camera(folder);

const browser = await launch();
const steps = {
  async 'link logs in once'() {
    const page = await openPage(browser, link);
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    assert.equal(new URL(page.url()).hash, '', 'the code leaves the address');
    const [cookie] = await browser.cookies();
    assert.ok(cookie.httpOnly && cookie.sameSite === 'Strict', JSON.stringify(cookie));
    await page.close();
    const again = await openPage(browser, link);
    await again.getByRole('heading', { name: 'Log in to the cluster' }).waitFor();
    await again.getByText('This link was used already').waitFor();
    await checkAccess(again, 'login');
    await again.close();
  },

  async 'overview tells what needs attention'() {
    const page = await openPage(browser, `${base}/ui/`);
    await page.getByText('No node takes this pod').first().waitFor();
    await page.getByRole('link', { name: 'stuck', exact: true }).click();
    await page.getByRole('tab', { name: /^Why ?1/ }).waitFor();
    await page.getByText(/Insufficient cpu/).first().waitFor();
    await page.close();
  },

  async 'table follows the cluster, filters and sorts'() {
    const page = await openPage(browser, `${base}/ui/list?kind=pods&namespace=shop`);
    await page.getByRole('button', { name: 'stuck', exact: true }).waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('status:pending');
    await page.getByText(/^1 of \d+$/).waitFor();
    assert.match(page.url(), /filter=status/);
    await page.getByRole('searchbox').fill('');
    await page.getByRole('button', { name: 'Age', exact: true }).click();
    await page.locator('th[aria-sort=ascending]').waitFor();
    await page.close();
  },

  async 'YAML is checked, compared and applied'() {
    const page = await openPage(browser, `${base}/ui/list?kind=configmaps&namespace=shop&open=shop/settings&tab=yaml`);
    const editor = page.getByRole('textbox', { name: 'YAML of the object' });
    await page.getByRole('button', { name: 'Edit' }).click();
    const text = await editor.inputValue();
    await editor.fill(text.replace('colour: red', 'colour: blue\nnonsense: 1'));
    await page.getByRole('button', { name: 'Check' }).click();
    await page.getByText(/unknown field "nonsense"/).waitFor();
    await page.locator('.gutter .wrong').waitFor();
    await editor.fill(text.replace('colour: red', 'colour: [blue'));
    await page.getByRole('button', { name: 'Check' }).click();
    await page.getByText(/^Line \d+:/).waitFor();
    await editor.fill(text.replace('colour: red', 'colour: blue'));
    await page.getByRole('button', { name: 'Check' }).click();
    await page.getByText('+   colour: blue').waitFor();
    await shot(page, 'edit');
    await page.getByRole('button', { name: 'Apply', exact: true }).click();
    await page.getByText('Applied.').waitFor();
    await page.close();
  },

  async 'what is dropped onto the window is created'() {
    const page = await openPage(browser, `${base}/ui/`);
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    await page.evaluate(() => {
      const data = new DataTransfer();
      data.items.add(new File(['apiVersion: v1\nkind: ConfigMap\nmetadata: {name: dropped, namespace: shop}\ndata: {a: b}\n'], 'c.yaml'));
      dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
    });
    await page.getByRole('button', { name: 'Check' }).click();
    await page.getByText('The server accepts this.').waitFor();
    await page.getByRole('button', { name: 'Apply', exact: true }).click();
    await page.getByRole('heading', { name: 'dropped' }).waitFor();
    await page.close();
  },

  async 'workload is scaled, and object deleted after a question'() {
    const page = await openPage(browser, `${base}/ui/list?kind=deployments.apps&open=shop/web&tab=tree`);
    await page.getByRole('button', { name: 'Scale', exact: true }).click();
    await page.getByRole('spinbutton').fill('4');
    await page.getByText('kubectl scale deployments.apps/web -n shop --replicas=4').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Scale', exact: true }).click();
    await page.getByText('Scaled to 4.').waitFor();
    await page.getByRole('tabpanel').getByText('ReplicaSet').waitFor();
    await page.goto(`${base}/ui/list?kind=configmaps&open=shop/doomed`);
    await page.getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByRole('button', { name: 'doomed', exact: true }).waitFor({ state: 'detached' });
    await page.close();
  },

  async 'YAML is completed from the schema of the server'() {
    const page = await openPage(browser, `${base}/ui/create`);
    const editor = page.getByRole('textbox', { name: 'Create from YAML' });
    await editor.fill('apiVersion: v1\nkind: Pod\nmetadata:\n  name: typed\n  namespace: shop\nspec:\n  ');
    await editor.press('End');
    await editor.pressSequentially('cont');
    await page.getByRole('option', { name: /^containers/ }).waitFor();
    await checkAccess(page, 'completion');
    await shot(page, 'completion');
    await editor.press('Enter');
    await editor.pressSequentially('nam');
    await page.getByRole('option', { name: /^name/ }).waitFor();
    await editor.press('Tab');
    await editor.pressSequentially('main\n');
    await editor.pressSequentially('      imagePull');
    await page.getByRole('option', { name: /^imagePullPolicy/ }).waitFor();
    await editor.press('Escape');
    await page.locator('.offers').waitFor({ state: 'detached' });
    assert.match(await editor.inputValue(), /containers:\n    - name: main\n/);
    await page.close();
  },

  async 'rollout is undone, and a cordoned node opened from the overview'() {
    const page = await openPage(browser, `${base}/ui/list?kind=deployments.apps&open=shop/cart&tab=yaml`);
    const editor = page.getByRole('textbox', { name: 'YAML of the object' });
    await page.getByRole('button', { name: 'Edit' }).click();
    await editor.fill((await editor.inputValue()).replace('minik8s.io/cart:2', 'minik8s.io/cart:3'));
    await page.getByRole('button', { name: 'Check' }).click();
    await page.getByText('The server accepts this.').waitFor();
    await page.getByRole('button', { name: 'Apply', exact: true }).click();
    // A controller numbers the new template; until then there is none to go back to.
    await page.waitForFunction(() => /deployment\.kubernetes\.io\/revision: "2"/.test(document.querySelector('textarea')?.value ?? ''));
    await page.getByRole('button', { name: 'Undo', exact: true }).click();
    await page.getByText('Back to the template of revision 1.').waitFor();
    await page.waitForFunction(() => document.querySelector('textarea')?.value.includes('minik8s.io/cart:2'));
    await page.goto(`${base}/ui/list?kind=nodes`);
    await page.locator('tbody .name').first().click();
    await page.getByRole('button', { name: 'Cordon', exact: true }).click();
    await page.getByText('No new pods are placed here.').waitFor();
    await page.goto(`${base}/ui/`);
    await page.getByText('This node takes no new pods').waitFor();
    await page.getByRole('button', { name: 'Uncordon', exact: true }).click();
    await page.getByText('This node takes no new pods').waitFor({ state: 'detached' });
    await page.close();
  },

  async 'palette knows short names and objects'() {
    const page = await openPage(browser, `${base}/ui/`);
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    await page.keyboard.press(':');
    await page.keyboard.type('cm');
    await page.getByRole('option', { name: 'ConfigMap' }).waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'ConfigMap' }).waitFor();
    await page.keyboard.press(':');
    await page.keyboard.type('stuck');
    await page.getByRole('option', { name: 'stuck' }).waitFor();
    await checkAccess(page, 'palette');
    await shot(page, 'palette');
    await page.close();
  },

  async 'hostile text stays text'() {
    const page = await openPage(browser, `${base}/ui/list?kind=configmaps&namespace=shop&open=shop/hostile&tab=summary`);
    await page.getByText('<img src=x onerror=alert(1)>').first().waitFor();
    assert.equal(await page.locator('img[src="x"]').count(), 0);
    await page.getByRole('tab', { name: 'YAML' }).click();
    await page.waitForFunction(() => document.querySelector('textarea')?.value.includes('<script>'));
    await page.goto(`${base}/ui/list?kind=%3Cscript%3Ealert(1)%3C/script%3E`);
    await page.getByText('<script>alert(1)</script>').waitFor();
    await page.close();
  },

  async 'session ends'() {
    const page = await openPage(browser, `${base}/ui/`);
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByRole('heading', { name: 'Log in to the cluster' }).waitFor();
    await page.goto(`${base}/ui/list?kind=pods`);
    await page.getByRole('heading', { name: 'Log in to the cluster' }).waitFor();
    await page.close();
  },
};

const LOOKS = [
  { name: 'overview', path: '/ui/', ready: 'main h1' },
  { name: 'pods', path: '/ui/list?kind=pods', ready: 'tbody tr' },
  { name: 'pod', path: '/ui/list?kind=pods&namespace=shop&open=shop/stuck', ready: '[role=tabpanel] h3' },
  { name: 'deployment', path: '/ui/list?kind=deployments.apps&open=shop/web&tab=tree', ready: '[role=tabpanel] li li' },
  { name: 'nodes', path: '/ui/list?kind=nodes', ready: 'tbody tr' },
  { name: 'yaml', path: '/ui/list?kind=deployments.apps&open=shop/web&tab=yaml', ready: 'textarea' },
  { name: 'events', path: '/ui/list?kind=pods&open=shop/stuck&tab=events', ready: '[role=tabpanel] li' },
  { name: 'kinds', path: '/ui/kinds', ready: 'tbody tr' },
  { name: 'create', path: '/ui/create', ready: 'textarea' },
  { name: 'empty', path: '/ui/list?kind=ingresses.networking.k8s.io', ready: '.empty' },
];

try {
  const wanted = process.env.STEP;
  for (const [name, step] of Object.entries(steps)) {
    if (name === 'session ends') await checkLooks(browser, base, LOOKS, shot);
    if (wanted && !name.includes(wanted) && !name.startsWith('link')) continue;
    const start = Date.now();
    try {
      await step();
      console.log(`ok: ${name} (${Date.now() - start} ms)`);
    } catch (error) {
      complaints.push(`${name}: ${error.message ?? error}`);
      await shot(browser.pages().at(-1), `failed-${Object.keys(steps).indexOf(name)}`);
    }
  }
  assert.equal(complaints.join('\n'), '', 'complaints');
  console.log('all pages are well');
} finally {
  await browser.close();
}
