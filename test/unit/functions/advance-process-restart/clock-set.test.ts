/** Clocks that are set by ten minutes in the middle of a restart: that of the API server, and that of the function's machine. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { ServerTime } from "../../../../functions/shared/clock/server-time.ts";
import { SteadyClock } from "../../../../functions/shared/clock/steady-clock.ts";
import { DatabaseStage } from "./database/stage.ts";

const names = [0, 1, 2].map((ordinal) => `group-a-${ordinal}`);
const tenMinutesMs = 600_000;
/** A restart has no more steps. */
const mostSteps = 90;

/** The shipped clocks, over the time of the fake cluster. */
class ClockStage extends DatabaseStage {
  /** What the clock of the API server, and the wall clock of the function's machine, have been set by, in milliseconds. */
  serverMs = 0;
  wallMs = 0;
  /** Names the process that takes ten seconds to end. */
  slow: string | undefined;
  readonly #serverTime = new ServerTime();
  readonly #steady = new SteadyClock({
    monotonicMs: () => this.timeline.nowMs(),
    wallMs: () => this.timeline.nowMs() + this.wallMs,
  });
  #stoppingSteps = 0;

  static async of(): Promise<ClockStage> {
    const stage = new ClockStage();
    stage.world.annotate({ namespace: "db", name: "group-a" }, { "sluice.dev/restart-unchecked": "*" });
    Object.assign(stage.cluster, {
      serverTimeMs: () => Math.round(stage.#serverTime.at(stage.#steady.nowMs()) ?? 0),
      monotonicMs: () => stage.#steady.nowMs(),
      wallTimeMs: () => stage.#steady.wallMs(),
    });
    const { interfere } = stage;
    stage.interfere = (call) => {
      stage.noteAnswer();
      return interfere(call);
    };
    stage.noteAnswer();
    stage.anew();
    await stage.begun();
    return stage;
  }

  /** An answer of the API server, which has its time. */
  noteAnswer(): void {
    const nowMs = this.#steady.nowMs();
    const date = new Date(this.timeline.nowMs() + this.serverMs).toUTCString();
    this.#serverTime.observe(date, nowMs, nowMs, this.#steady.skippedMs());
  }

  override async step(): Promise<void> {
    const slow = this.slow === undefined ? undefined : this.manager(this.slow);
    if (slow !== undefined) {
      if (slow.state === "stopping") this.#stoppingSteps++;
      slow.ends = this.#stoppingSteps >= 10;
    }
    await super.step();
  }

  isOver = (): boolean => this.claims.length === 0 && names.every((name) => this.phaseOf(name) === undefined);
}

const setters = {
  "the API server's clock": (stage: ClockStage, byMs: number) => {
    stage.serverMs += byMs;
  },
  "the machine's clock": (stage: ClockStage, byMs: number) => {
    stage.wallMs += byMs;
  },
} as const;

/** Sets a clock after so many steps. Returns how many steps the restart had. */
async function restarted(phase: string, after: number, set: (stage: ClockStage) => void): Promise<number> {
  const stage = await ClockStage.of();
  const marked = phase === "schedule-coordinated" ? names : names.slice(1, 2);
  stage.slow = marked[0];
  for (const name of marked) stage.write(name, phase);
  let steps = 0;
  for (; !stage.isOver() || steps === 0; steps++) {
    assert.ok(steps < mostSteps, `after ${after} steps: no end of ${stage.claims.map(({ line }) => line)}`);
    if (steps === after) set(stage);
    await stage.step();
  }
  for (const name of marked) {
    const { calls, starts, state } = stage.manager(name);
    const verbs = calls.filter((call) => call.endsWith("202")).map((call) => call.replace(/ .*/, ""));
    assert.deepEqual([...new Set(verbs)], ["stop", "start"], `${name} after ${after} steps: no process is killed`);
    assert.deepEqual([starts, state], [2, "started"], `${name} after ${after} steps`);
  }
  assert.deepEqual(stage.allocation, [undefined, undefined], `after ${after} steps`);
  return steps;
}

for (const phase of ["schedule", "schedule-coordinated"])
  suite(phase, () => {
    for (const [what, set] of Object.entries(setters))
      for (const byMs of [tenMinutesMs, -tenMinutesMs])
        test(`${what} is set by ${byMs / 60_000} minutes after any step, and each process is restarted once, and none is killed`, async () => {
          const steps = await restarted(phase, mostSteps, () => {});
          for (let after = 0; after < steps; after++) await restarted(phase, after, (stage) => set(stage, byMs));
        });
  });

test("what has not stopped for a quarter of an hour is killed even by a process that has only just begun", async () => {
  const stage = await ClockStage.of();
  const [name = ""] = names;
  stage.manager(name).ends = false;
  stage.write(name, "schedule");
  const isAsked = (verb: string) => stage.manager(name).calls.some((call) => call.startsWith(verb));
  await stage.until("the stop", () => isAsked("stop"));
  const begin = async (minutes: number) => {
    await stage.goOn(minutes * 60_000);
    stage.anew();
    stage.noteAnswer();
    await stage.step();
  };
  for (let minute = 1; minute < 14; minute++) {
    await begin(1);
    assert.equal(isAsked("kill"), false, `after ${minute} minutes`);
  }
  await begin(2);
  await stage.until("the kill", () => isAsked("kill"), 5);
});
