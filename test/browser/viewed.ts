/** The status of a group of the embedded world, as the shipped server shows it to a real browser. */
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { kubeconfigText } from "../support/kubeconfig.ts";
import { namespace, type ServedGroup, serveGroup } from "../support/served-group.ts";
import { Server } from "../support/server.ts";

/** A page, and what a user of it should never see. */
export interface Viewed {
  readonly page: Page;
  /** Messages of the console, errors, dialogs and violations of the page's policy. */
  readonly complaints: readonly string[];
}

export async function openPage(browser: Browser, url: string, options: BrowserContextOptions = {}): Promise<Viewed> {
  const page = await browser.newPage(options);
  const complaints: string[] = [];
  page.on("console", (message) => complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("dialog", (dialog) => {
    complaints.push(dialog.message());
    void dialog.dismiss();
  });
  await page.exposeFunction("reportViolation", (text: string) => complaints.push(text));
  await page.addInitScript(
    "addEventListener('securitypolicyviolation', ({ violatedDirective: rule, blockedURI }) => reportViolation(rule + ' ' + blockedURI))",
  );
  await page.goto(url);
  return { page, complaints };
}

/** Loads the page again with a clock that goes as the test says. */
export async function controlClock(page: Page) {
  let [started, ended] = [0, 0];
  page.on("request", () => started++);
  for (const event of ["requestfinished", "requestfailed"] as const) page.on(event as "requestfinished", () => ended++);
  await page.clock.install();
  await page.reload();
  /** Resolves when the page has all answers. */
  const settled = async () => {
    while (started > ended) await delay(5);
    await page.evaluate("0");
  };
  /** Resolves to the number of requests in that time, which is a multiple of 2 s. */
  const elapse = async (ms: number): Promise<number> => {
    await settled();
    const before = started;
    for (let passed = 0; passed < ms; passed += 2_000) {
      await page.clock.runFor(2_000);
      await settled();
    }
    return started - before;
  };
  return { elapse };
}

interface AxeResults {
  readonly violations: readonly { readonly id: string; readonly nodes: readonly { readonly html: string }[] }[];
}

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

/** What makes a page hard to use for people who do not see well, or use no mouse. */
export async function barriersOf(page: Page): Promise<readonly string[]> {
  // Not as an element of the page, because the page's policy would refuse it.
  await page.evaluate(axe);
  const { violations } = await page.evaluate<AxeResults>(`axe.run({ runOnly: ${JSON.stringify(rules)} })`);
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
}

/**
 * What is wrong with the page for a user in light or in dark, from a phone to a wide screen: barriers, sideways scrolling, and
 * messages. `shown` gets each page when all widths were seen.
 */
export async function faultsOf(
  browser: Browser,
  url: string,
  shown: (page: Page, colorScheme: "light" | "dark") => Promise<void> = async () => {},
): Promise<readonly string[]> {
  const faults: string[] = [];
  for (const colorScheme of ["light", "dark"] as const) {
    const { page, complaints } = await openPage(browser, url, { colorScheme });
    for (const width of [320, 390, 1280]) {
      await page.setViewportSize({ width, height: 900 });
      const root = "document.documentElement";
      const isWide = await page.evaluate(`${root}.scrollWidth > ${root}.clientWidth`);
      const found = [...(await barriersOf(page)), ...(isWide ? ["it scrolls sideways"] : [])];
      faults.push(...found.map((fault) => `${colorScheme} ${width}: ${fault}`));
    }
    await shown(page, colorScheme);
    faults.push(...complaints);
    await page.close();
  }
  return faults;
}

export class Stage {
  readonly group: ServedGroup;
  readonly #folder: string;
  readonly #port: number;
  #server: Server | undefined;

  private constructor(group: ServedGroup, folder: string, port: number) {
    this.group = group;
    this.#folder = folder;
    this.#port = port;
  }

  static async open(pods: number): Promise<Stage> {
    const group = await serveGroup({ seed: 1, pods, drop: 0 });
    const folder = await mkdtemp(join(tmpdir(), "sluice-browser-"));
    await writeFile(join(folder, "kubeconfig"), kubeconfigText(group.served.url, {}));
    // The server that replaces it has the same port.
    const free = createServer().listen(0, "127.0.0.1");
    await once(free, "listening");
    const address = free.address();
    free.close();
    await once(free, "close");
    return new Stage(group, folder, typeof address === "object" ? (address?.port ?? 0) : 0);
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}/`;
  }

  async start(more: Readonly<Record<string, string>> = {}): Promise<void> {
    const settings = { STATUS_LISTEN: `127.0.0.1:${this.#port}`, ...more };
    this.#server = await Server.start({ kubeconfig: join(this.#folder, "kubeconfig"), namespace, settings });
    await this.#server.ready();
  }

  /** The server cannot finish anything. */
  async kill(): Promise<void> {
    await this.#server?.kill();
    this.#server = undefined;
  }

  async close(): Promise<void> {
    await this.#server?.stop();
    await this.group.close();
    await rm(this.#folder, { recursive: true, force: true });
  }
}
