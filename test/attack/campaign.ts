/** Runs one attack after the other, each on a server of its own, and measures what it does to the server. */
import { setTimeout as delay } from "node:timers/promises";
import type { Attack, Outcome } from "./attack.ts";
import type { HonestReport } from "./honest.ts";
import { askFromAfar } from "./honest-thread.ts";
import { mebibyte, memoryOf } from "./limit.ts";
import type { AttackOptions } from "./options.ts";
import { mostResident, startTarget, type Target } from "./target.ts";

/** Result of an attack, in bytes and milliseconds. */
export interface Result {
  readonly name: string;
  readonly description: string;
  readonly seen: string;
  readonly before: number;
  readonly most: number;
  /** Undefined if the server has ended. */
  readonly after: number | undefined;
  readonly honestBefore: HonestReport;
  readonly honest: HonestReport;
  readonly failures: readonly string[];
  readonly seconds: number;
  /** What held the server to its limit. */
  readonly limit: string;
}

type CampaignOptions = Pick<AttackOptions, "size" | "seed" | "limitBytes" | "cgroup">;

/** Time before the attack in which code and connections warm up, and honest answers are measured. */
const warmUpMs = { short: 1_500, long: 4_000 } as const;
/** Time after the attack in which the server can release what it holds. */
const restMs = { short: 1_000, long: 4_000 } as const;
/** Time that an API server waits for an answer. */
const patienceMs = 10_000;

/** Runs one attack. Throws if the server cannot be started, or if the signal is aborted. */
export async function runAttack(attack: Attack, options: CampaignOptions, signal: AbortSignal): Promise<Result> {
  const { limitBytes, cgroup, size, seed } = options;
  const target = await startTarget({ limitBytes, cgroup, settings: attack.settings ?? {}, signal });
  const ended = new AbortController();
  const honestly = askFromAfar(target);
  try {
    await delay(warmUpMs[size] / 2, undefined, { signal });
    honestly.mark();
    await delay(warmUpMs[size] / 2, undefined, { signal });
    const honestBefore = await honestly.take();
    const { resident: before } = await memoryOf(target.pid);
    const startedMs = performance.now();
    const sampling = mostResident(target.pid, ended.signal);
    const outcome = await attempt(attack, { target, size, seed, signal, atHeight: () => honestly.mark() });
    const honest = await honestly.stop();
    const seconds = (performance.now() - startedMs) / 1_000;
    await delay(restMs[size], undefined, { signal });
    const after = await memoryOf(target.pid).catch(() => undefined);
    ended.abort();
    const most = await sampling;
    const report = { before, most, after: after?.resident, honestBefore, honest, limit: target.limit };
    const failures = [
      ...outcome.failures,
      ...(await memoryFailures(target, most, limitBytes)),
      ...honestFailures(attack, honest),
      ...(await endFailures(target)),
    ];
    return {
      name: attack.name,
      description: attack.description(size),
      seen: outcome.seen,
      ...report,
      failures,
      seconds,
    };
  } finally {
    ended.abort();
    await honestly.end();
    await target.stop();
  }
}

/** An attack also fails when the server has ended: {@link memoryFailures} reports why it ended. */
async function attempt(attack: Attack, scene: Parameters<Attack["run"]>[0]): Promise<Outcome> {
  try {
    return await attack.run(scene);
  } catch (error) {
    scene.signal.throwIfAborted();
    return { seen: "it broke off", failures: [(error as Error).message] };
  }
}

async function memoryFailures(target: Target, most: number, limitBytes: number | undefined): Promise<string[]> {
  const end = target.end();
  if (end !== undefined) return [`the server ended: ${end.summary}: ${await target.lastLines()}`];
  if (limitBytes === undefined || most <= limitBytes) return [];
  return [`${inMebibytes(most)} MiB were resident, more than ${inMebibytes(limitBytes)}`];
}

function honestFailures({ mayTurnEventsAway = false }: Attack, { failures, slowestMs }: HonestReport): string[] {
  const isTurnedAway = (what: string) => mayTurnEventsAway && what.startsWith("an honest event was answered 503");
  return [
    ...Object.entries(failures)
      .filter(([what]) => !isTurnedAway(what))
      .map(([what, count]) => `${count} times: ${what}`),
    ...(slowestMs > patienceMs ? [`an honest request took ${slowestMs.toFixed(0)} ms`] : []),
  ];
}

/** The server must end on request, whatever the attack did to it. */
async function endFailures(target: Target): Promise<string[]> {
  if (target.end() !== undefined) return [];
  const { summary } = await target.stop();
  return summary === "exit code 0" ? [] : [`asked to end, it ended with ${summary}`];
}

export function inMebibytes(bytes: number): string {
  return (bytes / mebibyte).toFixed(0);
}
