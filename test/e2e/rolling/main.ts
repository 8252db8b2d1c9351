/** Rolls Sluice itself from an older version to this one and back, on a real control plane, under a rollout and a drain. */
import { resolve } from "node:path";
import { ensureAssets } from "../../controlplane/assets.ts";
import { CommandLine } from "../../controlplane/flags.ts";
import { aborted, interruption } from "../../controlplane/interruption.ts";
import { startEvictionStage } from "../../support/eviction-stage.ts";
import { startScriptOf } from "../../support/start-script.ts";
import { type Outcome, rollSluice } from "./trial.ts";

const help = `Rolls Sluice itself on a real control plane: two processes of an older version give way to two of this one, one at a
time, and the newer webhook configurations are applied; then all goes the other way round. Each exchange falls into a rollout and
a drain of two zones. An observer says what was broken, and each eviction and size that is rehearsed meanwhile has to be reviewed.

  node test/e2e/rolling/main.ts --against DIR

  --against DIR   a checkout of the older version, with its node_modules
  --help          this text

Exit code 0: no promise was broken, and each version took pods; 1: otherwise, or something hangs; 2: a flag is wrong.`;

const flags = { against: { type: "string" }, help: { type: "boolean" } } as const;
const newer = resolve(import.meta.dirname, "../../..");

/** The checkout of the older version; undefined for a wrong command line, with `line` as the mistake. */
function readAgainst(line: CommandLine): string | undefined {
  const text = line.text("against");
  if (text === undefined) {
    line.mistakes.push("--against: name a checkout of the older version");
    return undefined;
  }
  const directory = resolve(text);
  try {
    startScriptOf(directory);
  } catch (error) {
    line.mistakes.push(`--against ${text}: ${(error as Error).message}`);
  }
  return directory;
}

/** True if no promise was broken, and both versions took part. */
function report({ violations, takings, done, complaints, reviews }: Outcome): boolean {
  for (const complaint of complaints) console.log(`said as an error by the ${complaint}`);
  for (const version of ["older", "newer"] as const) {
    const { deleted, allowed, refused } = done[version];
    console.log(
      `the ${version} version deleted ${deleted} pods at least, allowed ${allowed} evictions, and refused ${refused}`,
    );
  }
  const { older, newer } = reviews.failedInEnd;
  console.log(
    `of ${reviews.asked} rehearsals ${older.length} were not reviewed while an older process ended, and ${newer.length} while a newer one did`,
  );
  for (const violation of violations) console.log(`broken: ${violation}`);
  const idle = Object.values(done).some(({ deleted, allowed }) => deleted === 0 || allowed === 0);
  if (idle) console.log("a version had no part in it");
  console.log(`${takings.length} pods were taken; ${violations.length} promises broken`);
  return violations.length === 0 && !idle;
}

async function main(): Promise<number> {
  const line = new CommandLine(process.argv.slice(2), flags);
  if (line.has("help")) {
    console.log(help);
    return 0;
  }
  const older = readAgainst(line);
  for (const mistake of line.mistakes) console.error(mistake);
  if (older === undefined || line.mistakes.length > 0) return 2;
  const interrupted = interruption();
  const assets = await ensureAssets((reported) => console.error(reported));
  const stage = await startEvictionStage({ assets, signal: interrupted });
  try {
    const rolling = rollSluice(stage, { older, newer }, (reported) => console.log(reported));
    const outcome = await Promise.race([rolling, aborted(interrupted)]);
    return outcome !== undefined && report(outcome) ? 0 : 1;
  } finally {
    await stage.stop();
  }
}

try {
  process.exit(await main());
} catch (error) {
  console.error(error);
  process.exit(1);
}
