/** `npm run attack`. Exit codes: 0 if every attack was held off, 1 if one was not, 2 for wrong flags, 130 for Ctrl-C. */
import { writeFile } from "node:fs/promises";
import { cpus, totalmem } from "node:os";
import { type Result, runAttack } from "./campaign.ts";
import { type AttackOptions, help, readOptions } from "./options.ts";
import { inBrief, tableOf } from "./table.ts";

async function main(): Promise<number> {
  const reading = readOptions(process.argv.slice(2));
  if (reading.kind === "help") {
    console.log(help);
    return 0;
  }
  if (reading.kind === "wrong") {
    for (const mistake of reading.mistakes) console.error(`attack: ${mistake}`);
    return 2;
  }
  const interrupted = new AbortController();
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(name, () => {
      // A second Ctrl-C does not wait: the leash ends the child.
      if (interrupted.signal.aborted) process.exit(130);
      interrupted.abort(new Error(`${name}: ending`));
    });
  }
  try {
    return await attackAll(reading.options, interrupted.signal);
  } catch (error) {
    const { aborted, reason } = interrupted.signal;
    console.error(`attack: ${((aborted ? reason : error) as Error).message}`);
    return aborted ? 130 : 1;
  }
}

async function attackAll(options: AttackOptions, signal: AbortSignal): Promise<number> {
  const results: Result[] = [];
  for (const attack of options.attacks) {
    const result = await runAttack(attack, options, signal);
    if (results.at(-1)?.limit !== result.limit) console.log(`limit: ${result.limit}`);
    results.push(result);
    console.log(inBrief(result));
  }
  const broken = results.filter(({ failures }) => failures.length > 0);
  console.log(`${results.length - broken.length} of ${results.length} attacks were held off`);
  const memory = `${Math.round(totalmem() / 1024 ** 3)} GiB`;
  const heading = `\`npm run attack${options.size === "long" ? " -- --long" : ""}\`, seed ${options.seed}, ${cpus().length} cores, ${memory}, Node ${process.version}.`;
  if (options.out !== undefined) await writeFile(options.out, tableOf(results, heading));
  return broken.length > 0 ? 1 : 0;
}

process.exit(await main());
