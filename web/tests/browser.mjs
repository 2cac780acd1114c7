// Debian's Chromium, driven over its protocol. Every page that is opened must be silent: an error on the console or a
// report of the content security policy fails the test that saw it.
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const require = createRequire(import.meta.url);
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const FLAGS = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage',
];

/** Long enough for a busy machine; what a page itself costs is measured elsewhere, in the time of its own thread. */
const TIMEOUT = 60_000;

export const complaints = [];

export async function launch() {
  const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
  const chrome = await chromium.launch({ executablePath, headless: true, args: FLAGS, timeout: 2 * TIMEOUT });
  const browser = await chrome.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1400, height: 900 } });
  browser.on('close', () => void chrome.close());
  browser.setDefaultTimeout(TIMEOUT);
  return browser;
}

export async function openPage(browser, url) {
  const page = await browser.newPage();
  // What the browser itself says about an answer that the test wants, or about a network that changes under it (pods come
  // and go on the same machine), is no fault of the page.
  const expected = /Failed to load resource: (the server responded with a status of 4\d\d|net::ERR_NETWORK_CHANGED)/;
  page.on('console', (message) => {
    const isBad = message.type() === 'error' || message.type() === 'warning';
    if (isBad && !expected.test(message.text())) complaints.push(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => complaints.push(`page: ${error.stack ?? error}`));
  await page.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) => {
      console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber} ${event.sample}`);
    });
  });
  if (url) await page.goto(url);
  return page;
}

/** No violation of WCAG 2.2 A and AA. The script runs in a world of its own, where the page's policy does not reach. */
export async function checkAccess(page, name) {
  const session = await page.context().newCDPSession(page);
  const { frameTree } = await session.send('Page.getFrameTree');
  const { executionContextId: contextId } = await session.send('Page.createIsolatedWorld', { frameId: frameTree.frame.id });
  await session.send('Runtime.evaluate', { contextId, expression: `${axe};0` });
  const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
  const expression = `axe.run(document, {runOnly: ${JSON.stringify(tags)}}).then(r => JSON.stringify(r.violations.map(v =>
    v.id + ': ' + v.nodes.slice(0, 3).map(n => n.html.slice(0, 160) + ' | ' + (n.any[0]?.message ?? '')).join(' ;; '))))`;
  const { result, exceptionDetails } = await session.send('Runtime.evaluate', {
    contextId, expression, awaitPromise: true, returnByValue: true,
  });
  await session.detach();
  if (exceptionDetails) throw new Error(`axe: ${JSON.stringify(exceptionDetails)}`);
  for (const violation of JSON.parse(result.value)) complaints.push(`access, ${name}: ${violation}`);
}

/** Takes pictures where a folder is given. */
export function camera(folder) {
  if (folder) mkdirSync(folder, { recursive: true });
  return async (page, name) => {
    if (folder) await page.screenshot({ path: join(folder, `${name}.png`) });
  };
}

/** Every page in both themes and languages, wide and narrow: accessible, and no wider than the window. */
export async function checkLooks(browser, base, looks, shot) {
  const page = await openPage(browser, `${base}/ui/`);
  for (const language of ['en', 'zh']) {
    await page.evaluate((chosen) => localStorage.setItem('language', chosen), language);
    for (const width of [1400, 390]) {
      await page.setViewportSize({ width, height: width < 500 ? 844 : 900 });
      for (const look of looks) {
        await look.before?.(page);
        await page.goto(base + look.path);
        await page.locator(look.ready).first().waitFor();
        await look.prepare?.(page);
        for (const theme of ['light', 'dark']) {
          await page.evaluate((chosen) => (document.documentElement.dataset.theme = chosen), theme);
          const name = `${look.name}-${theme}-${language}-${width}`;
          await checkAccess(page, name);
          const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
          if (overflow > 0) complaints.push(`${name}: wider than the window by ${overflow} px`);
          await shot(page, name);
        }
      }
    }
  }
  await page.evaluate(() => localStorage.clear());
  await page.close();
}

/** Runs steps one after the other and tells of all that went wrong, with a picture of each. */
export async function runSteps(browser, steps, shot) {
  for (const [name, step] of Object.entries(steps)) {
    const start = Date.now();
    try {
      await step();
      console.log(`ok: ${name} (${Date.now() - start} ms)`);
    } catch (error) {
      console.log(`FAILED ${name}: ${error.message ?? error}`);
      complaints.push(`${name}: ${error.message ?? error}`);
      await shot(browser.pages().at(-1), `failed-${Object.keys(steps).indexOf(name)}`);
    }
  }
}
