/** The process of the agent: `node main.ts`, in a pod on each node. Exit code 2 means that a setting is wrong. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { sleep } from "../../shared/clock/process-clock.ts";
import { Agent } from "./agent.ts";
import { HttpsApi } from "./api.ts";
import { BootFile } from "./boot-store.ts";
import { WatchdogDevice } from "./device.ts";
import type { AgentLog } from "./outside.ts";
import { type AgentSettings, readSettings } from "./settings.ts";

const bootIdFile = "/proc/sys/kernel/random/boot_id";
const uptimeFile = "/proc/uptime";
/** What makes the kernel reset the machine at once, without a sync. */
const resetNow = "b";

const log: AgentLog = (level, message) => console.log(JSON.stringify({ level, msg: message }));

/** The clock of `process.hrtime` stands still while the machine is suspended; this one does not. */
const bootClock = { nowMs: () => Math.round(Number(readFileSync(uptimeFile, "utf8").split(" ")[0]) * 1000) };

function makeAgent(settings: AgentSettings): Agent {
  const { resetFile, watchdog, watchdogMs, runFolder } = settings;
  return new Agent(settings, {
    bootId: readFileSync(bootIdFile, "utf8").trim(),
    clock: bootClock,
    api: new HttpsApi(settings),
    watchdog: new WatchdogDevice(watchdog, watchdogMs),
    store: new BootFile(join(runFolder, "agent.json"), log),
    log,
    reset: resetFile === undefined ? undefined : () => writeFileSync(resetFile, resetNow),
  });
}

/** Until the signal is aborted. A renewal under way ends first. */
async function renewAgain(agent: Agent, everyMs: number, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const startedMs = bootClock.nowMs();
    await agent.renew();
    await sleep(Math.max(0, startedMs + everyMs - bootClock.nowMs()), signal);
  }
}

async function tickAgain(agent: Agent, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    agent.tick();
    await sleep(agent.tickMs, signal);
  }
}

async function run(settings: AgentSettings): Promise<void> {
  const stopping = new AbortController();
  const stopped = new AbortController();
  for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => stopping.abort());
  const agent = makeAgent(settings);
  const ticks = tickAgain(agent, stopped.signal);
  await renewAgain(agent, settings.renewEveryMs, stopping.signal);
  process.exitCode = (await agent.stop()) ? 0 : 1;
  stopped.abort();
  await ticks;
  // Kept connections would hold the process until the server ends them.
  process.exit();
}

const settings = readSettings(process.env);
if (Array.isArray(settings)) {
  for (const message of settings) console.error(message);
  process.exitCode = 2;
} else {
  await run(settings as AgentSettings);
}
