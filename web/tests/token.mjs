// The API server's own door: `node tests/token.mjs SERVER TOKEN`. The token may view the namespace `shop` and nothing
// else. crates/minik8s/tests/e2e/dashboard makes it.
import assert from 'node:assert/strict';
import { checkAccess, complaints, launch, openPage } from './browser.mjs';

const [server, token] = process.argv.slice(2);
const browser = await launch();
try {
  const page = await openPage(browser, `${server}/ui/`);
  await page.getByLabel('Or paste a token').fill('nonsense');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByText('The cluster does not know this token.').waitFor();
  await checkAccess(page, 'login');
  await page.getByLabel('Or paste a token').fill(token);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByText('You may not see this').waitFor();
  const [cookie, ...others] = await browser.cookies();
  assert.equal(others.length, 0);
  assert.ok(cookie.name.startsWith('__Host-') && cookie.httpOnly && cookie.secure && cookie.sameSite === 'Strict', JSON.stringify(cookie));
  assert.ok(!cookie.value.includes(token.slice(10, 40)), 'the token is not in the cookie');
  assert.equal(await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage })).then((s) => s.includes('ey')), false);

  await page.getByRole('textbox', { name: 'Namespace' }).fill('shop');
  await page.getByRole('textbox', { name: 'Namespace' }).press('Enter');
  await page.getByText('No node takes this pod').first().waitFor();
  await page.getByRole('link', { name: 'ConfigMaps' }).click();
  await page.getByRole('button', { name: 'settings', exact: true }).click();
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click();
  await page.getByText(/cannot delete resource "configmaps"/).waitFor();
  await page.getByRole('button', { name: 'settings', exact: true }).waitFor();
  await page.getByRole('link', { name: 'Secrets' }).click();
  await page.getByText('You may not see this').waitFor();
  await checkAccess(page, 'forbidden');

  // A reload keeps the session; its page lists and ends it.
  await page.reload();
  await page.getByText('You may not see this').waitFor();
  await page.goto(`${server}/ui/account`);
  await page.getByText('You are system:serviceaccount:shop:guest.').waitFor();
  await page.getByText('(this one)').waitFor();
  await checkAccess(page, 'account');
  await page.getByRole('button', { name: /^End / }).click();
  await page.getByRole('heading', { name: 'Log in to the cluster' }).waitFor();

  // A session that only looks.
  await page.getByLabel('Or paste a token').fill(token);
  await page.getByLabel(/^Only look/).check();
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByText('This session only reads.').first().waitFor();
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByRole('heading', { name: 'Log in to the cluster' }).waitFor();
  await page.reload();
  await page.getByRole('heading', { name: 'Log in to the cluster' }).waitFor();
  assert.equal(complaints.join('\n'), '', 'complaints');
} finally {
  await browser.close();
}
