/** Wall clocks of processes of the product that are wrong, or that are set while they run. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

export const clockFolderVariable = "SLUICE_TEST_CLOCKS";

/** A process has the clock of its Node, and one that knows of no Node has this one. */
export const clockOfFunction = "function";

/** No kernel lets a namespace have a wall clock of its own, so that a hook of the module loader replaces that of JavaScript. */
export class WallClocks {
  readonly #folder = mkdtempSync(join(tmpdir(), "sluice-clocks-"));
  readonly #hook = `--import=${pathToFileURL(join(import.meta.dirname, "set-wall-clock.ts")).href}`;

  /** The environment of a process whose clock can be set, beside another one. */
  environment(other: Readonly<Record<string, string>> = {}): Readonly<Record<string, string>> {
    const options = [other.NODE_OPTIONS ?? "--disable-warning=ExperimentalWarning", this.#hook].join(" ");
    return { ...other, [clockFolderVariable]: this.#folder, NODE_OPTIONS: options };
  }

  /** Sets a clock to so far ahead of the right time, also for processes that start later. In milliseconds. */
  set(name: string, aheadMs: number): void {
    writeFileSync(join(this.#folder, name), String(aheadMs));
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true });
  }
}
