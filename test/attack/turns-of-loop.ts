/**
 * Loaded before the server by `--import`. Prints the processor time that its thread used between two turns of the event loop,
 * if that is much. Time in which other threads had the processor does not count.
 */
const everyMs = 2;
const worthReportingMs = 25;

let beforeUs = usedUs();

function usedUs(): number {
  const { user, system } = process.threadCpuUsage();
  return user + system;
}

setInterval(() => {
  const nowUs = usedUs();
  const ms = Math.round((nowUs - beforeUs) / 1_000);
  if (ms >= worthReportingMs)
    process.stdout.write(`${JSON.stringify({ level: "info", msg: "long turn", turnMs: ms })}\n`);
  beforeUs = usedUs();
}, everyMs).unref();
