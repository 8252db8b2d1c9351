/** The process of the agent: `node main.ts`, in a pod on each node. Exit code 2 means that a setting is wrong. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { sleep } from "../../shared/clock/process-clock.ts";
import { Agent } from "./agent.ts";
import { HttpsApi } from "./api.ts";
import { BootFile, storedHistory, storedMemory } from "./boot-store.ts";
import { WatchdogDevice } from "./device.ts";
import { formatMetrics } from "./metrics.ts";
import type { AgentLog } from "./outside.ts";
import { PeerAnswers } from "./peer-answers.ts";
import { PeerClient } from "./peer-client.ts";
import { PeerServer } from "./peer-server.ts";
import { type AgentSettings, readSettings } from "./settings.ts";

const bootIdFile = "/proc/sys/kernel/random/boot_id";
const uptimeFile = "/proc/uptime";
/** What makes the kernel reset the machine at once, without a sync. */
const resetNow = "b";
/** How soon an agent tries again to listen on a port that its predecessor still has, in milliseconds. */
const listenAgainMs = 200;

const log: AgentLog = (level, message) => console.log(JSON.stringify({ level, msg: message }));

/** The clock of `process.hrtime` stands still while the machine is suspended; this one does not. */
const bootClock = { nowMs: () => Math.round(Number(readFileSync(uptimeFile, "utf8").split(" ")[0]) * 1000) };

function makeAgent(settings: AgentSettings, api: HttpsApi, watchdog: WatchdogDevice): Agent {
  const { resetFile, runFolder, stateFolder } = settings;
  return new Agent(settings, {
    bootId: readFileSync(bootIdFile, "utf8").trim(),
    clock: bootClock,
    api,
    peers: new PeerClient(),
    watchdog,
    store: new BootFile(join(runFolder, "agent.json"), storedMemory, log),
    history: new BootFile(join(stateFolder, "agent.json"), storedHistory, log),
    log,
    reset: resetFile === undefined ? undefined : () => writeFileSync(resetFile, resetNow),
  });
}

/** Waits until the port is free: another agent of this machine has it until it has ended. Undefined once it is stopped. */
async function listen(port: number, signal: AbortSignal): Promise<PeerServer | undefined> {
  for (let isNoted = false; !signal.aborted; isNoted = true) {
    try {
      return await PeerServer.listen(port);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw error;
      const message = `port ${port} is taken: this agent begins when the agent, or another program, that listens there has ended`;
      if (!isNoted) log("warn", message);
      await sleep(listenAgainMs, signal);
    }
  }
  return undefined;
}

/** `hasReset`: the watchdog has reset the machine before this boot; undefined if that is unknown. */
function serve(
  server: PeerServer,
  { agent, api, hasReset }: { readonly agent: Agent; readonly api: HttpsApi; readonly hasReset: boolean | undefined },
  settings: AgentSettings,
): void {
  const { node: name, renewTimeoutMs } = settings;
  const { key, startedMs } = agent;
  const answers = new PeerAnswers({
    ...{ clock: bootClock, api, renewTimeoutMs, startedMs },
    freshMs: () => agent.freshMs,
    lastSuccessMs: () => agent.lastSuccessMs,
  });
  const metrics = () => {
    const { drillsAnswered } = server;
    const residentBytes = process.memoryUsage.rss();
    return formatMetrics({ ...agent.measures, nowMs: bootClock.nowMs(), drillsAnswered, hasReset, residentBytes });
  };
  server.serve({ name, key, metrics, answer: (node, bootId) => answers.answer(node, bootId) });
}

/** Until the signal is aborted. What is under way ends first. */
async function repeat(act: () => unknown, everyMs: () => number, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const startedMs = bootClock.nowMs();
    await act();
    await sleep(Math.max(0, startedMs + everyMs() - bootClock.nowMs()), signal);
  }
}

async function run(settings: AgentSettings): Promise<void> {
  const stopping = new AbortController();
  const stopped = new AbortController();
  for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => stopping.abort());
  const server = await listen(settings.peerPort, stopping.signal).catch((error: Error) => {
    log("warn", `port ${settings.peerPort} cannot be used: ${error.message}`);
    process.exitCode = 1;
  });
  if (server === undefined) return;
  const api = new HttpsApi(settings);
  const watchdog = new WatchdogDevice(settings.watchdog, settings.watchdogMs);
  const agent = makeAgent(settings, api, watchdog);
  serve(server, { agent, api, hasReset: watchdog.hasResetMachine() }, settings);
  const ticks = repeat(
    () => agent.tick(),
    () => agent.tickMs,
    stopped.signal,
  );
  const every = () => settings.renewEveryMs;
  const drills = repeat(() => agent.drill(), every, stopping.signal);
  await repeat(() => agent.renew(), every, stopping.signal);
  await drills;
  process.exitCode = (await agent.stop()) ? 0 : 1;
  stopped.abort();
  await ticks;
  // Last, because a successor begins when the port is free.
  await server.close();
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
