/**
 * `npm run bench`. Exit codes: 0 if every trial ended, 1 if one did not or took too long, 2 for wrong flags, 130 for
 * Ctrl-C.
 */
import { report, runBenchmark } from "./benchmark.ts";
import { runColdStart } from "./cold-start.ts";
import { drainBenchmark } from "./drain/drain.ts";
import { evictionBenchmark } from "./eviction/eviction.ts";
import { faultBenchmark } from "./faults/faults.ts";
import { runFenceBench } from "./fence/fence.ts";
import { help, readOptions } from "./options.ts";
import { runRestartBench } from "./restart/restart.ts";
import { rolloutBenchmark } from "./rollout.ts";
import { scalingBenchmark } from "./scaling/scaling.ts";
import { runStatusBench } from "./status/status.ts";

async function main(): Promise<number> {
  const reading = readOptions(process.argv.slice(2));
  if (reading.kind === "help") {
    console.log(help);
    return 0;
  }
  if (reading.kind === "wrong") {
    for (const mistake of reading.mistakes) report(`bench: ${mistake}`);
    return 2;
  }
  const interrupted = new AbortController();
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(name, () => {
      // A second Ctrl-C does not wait: the leash ends the children.
      if (interrupted.signal.aborted) process.exit(130);
      interrupted.abort(new Error(`${name}: ending`));
    });
  }
  const { options } = reading;
  try {
    if (reading.kind === "fence") return await runFenceBench(reading.options, interrupted.signal);
    if (reading.kind === "status") return await runStatusBench(reading.options, interrupted.signal);
    if (reading.kind === "restart") return await runRestartBench(options, interrupted.signal);
    if (reading.kind === "cold-start") return await runColdStart(options, interrupted.signal);
    if (reading.kind === "rollout") return await runBenchmark(rolloutBenchmark(options), options, interrupted.signal);
    if (reading.kind === "drain") return await runBenchmark(drainBenchmark(options), options, interrupted.signal);
    if (reading.kind === "faults")
      return await runBenchmark(faultBenchmark(reading.options), options, interrupted.signal);
    if (reading.kind === "scaling")
      return await runBenchmark(scalingBenchmark(reading.options), options, interrupted.signal);
    return await runBenchmark(evictionBenchmark(reading.options), options, interrupted.signal);
  } catch (error) {
    report(`bench: ${(error as Error).message}`);
    return interrupted.signal.aborted ? 130 : 1;
  }
}

process.exit(await main());
