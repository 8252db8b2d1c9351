/** `npm run demo`. Exit codes: see `--help`. */
import { once } from "node:events";
import { constants } from "node:os";
import { Journal, lineOf } from "../support/journal.ts";
import { runDemo } from "./demo.ts";
import { help, readOptions } from "./options.ts";
import { createPaint } from "./paint.ts";
import { drawPicture } from "./picture.ts";
import type { Play } from "./play.ts";
import { Screen } from "./screen.ts";
import { exitCodeOf, summarise } from "./summary.ts";

const { options, help: wantsHelp, mistakes } = readOptions(process.argv.slice(2));
for (const mistake of mistakes) console.error(mistake);
if (mistakes.length > 0) process.exit(2);
if (wantsHelp) {
  console.log(help);
  process.exit(0);
}
process.exit(await main());

async function main(): Promise<number> {
  const { stdout } = process;
  const interruption = new AbortController();
  let signalNumber = 0;
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => {
      signalNumber ||= constants.signals[signal];
      interruption.abort();
    });
  }
  // The reader of the output has gone, so the demo ends.
  stdout.on("error", () => process.exit(1));
  const isLive = stdout.isTTY && !options.headless && process.env.TERM !== "dumb";
  const screen = isLive ? new Screen(stdout) : undefined;
  process.on("exit", () => screen?.close());
  const paint = createPaint(process.env);
  const journal = new Journal((entry) => {
    if (!isLive) console.log(lineOf(entry));
  });
  let url: string | undefined;
  let hasLingered = false;
  const summary = (play: Play) => `\n${summarise(play, stdout.columns || 100).join("\n")}`;
  const play = await runDemo({
    ...options,
    journal,
    signal: interruption.signal,
    show(shown) {
      // It stands above the picture, which is drawn over and over.
      if (options.page && url === undefined) {
        url = shown.sluice.pageUrl;
        if (url === undefined) return;
        console.log(`the page: ${url}`);
      }
      screen?.draw(drawPicture(shown, { columns: screen.columns, paint }));
    },
    async linger(ended) {
      if (url === undefined || ended.outcome === "sluice ended") return;
      hasLingered = true;
      console.log(`${summary(ended)}\n\nThe page stays at ${url} until Ctrl-C.`);
      if (!interruption.signal.aborted) await once(interruption.signal, "abort");
    },
  });
  if (hasLingered) return exitCodeOf(play);
  console.log(summary(play));
  return signalNumber > 0 ? 128 + signalNumber : exitCodeOf(play);
}
