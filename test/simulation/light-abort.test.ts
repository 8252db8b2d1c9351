/** The simulation's replacement of AbortController behaves like Node's. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createDraw, type Draw } from "./draw.ts";
import { LightAbortController, LightAbortSignal } from "./light-abort.ts";

type Kind = Pick<typeof globalThis, "AbortController" | "AbortSignal">;

const nodes: Kind = { AbortController, AbortSignal };
const light = { AbortController: LightAbortController, AbortSignal: LightAbortSignal } as unknown as Kind;

/** Draws controllers, joined signals, and listeners that come, go and remove each other. Returns what runs, in order. */
function play({ AbortController, AbortSignal }: Kind, draw: Draw): string[] {
  const received: string[] = [];
  const controllers = Array.from({ length: 3 }, () => new AbortController());
  const signals = controllers.map(({ signal }) => signal);
  const listeners: { readonly signal: AbortSignal; readonly listener: () => void }[] = [];
  const state = () => signals.map(({ aborted, reason }) => `${aborted} ${String(reason)}`).join(", ");
  const listen = () => {
    const signal = draw.pick(signals);
    const name = `listener ${listeners.length} of ${signals.indexOf(signal)}`;
    const removes = draw.chance(0.3) ? draw.whole(0, 20) : undefined;
    const listener = () => {
      received.push(`${name} at ${state()}`);
      if (removes !== undefined) remove(removes);
    };
    listeners.push({ signal, listener });
    signal.addEventListener("abort", listener, { once: true });
  };
  // The test listens to joined signals at once, because Node calls them in the order of their first listeners.
  const join = () => {
    const signal = AbortSignal.any([draw.pick(controllers).signal, draw.pick(controllers).signal]);
    const name = `joined ${signals.length}`;
    signal.addEventListener("abort", () => received.push(`${name} at ${state()}`));
    signals.push(signal);
  };
  const remove = (index: number) => {
    const one = listeners[index];
    one?.signal.removeEventListener("abort", one.listener);
  };
  for (let step = 0; step < 40; step++) {
    const chance = draw.random();
    if (chance < 0.5) listen();
    else if (chance < 0.7) join();
    else if (chance < 0.85) remove(draw.whole(0, 20));
    else if (chance < 0.93) draw.pick(controllers).abort(`reason ${step}`);
    received.push(state());
  }
  for (const controller of controllers) controller.abort();
  return [...received, state()];
}

test("the AbortController to compare with is Node's own: no simulation in this process has replaced it", () => {
  assert.notEqual(nodes.AbortController, LightAbortController as unknown);
  assert.match(String(nodes.AbortSignal), /EventTarget/);
});

test("the simulation's AbortController calls the same listeners in the same order as Node's", () => {
  let aborted = 0;
  for (let seed = 1; seed <= 500; seed++) {
    const expected = play(nodes, createDraw(seed));
    assert.deepEqual(play(light, createDraw(seed)), expected, `seed ${seed}`);
    aborted += expected.filter((line) => line.startsWith("listener")).length;
  }
  assert.ok(aborted > 1_000, `${aborted} listeners were called`);
});

test("an aborted signal throws its reason", () => {
  for (const { AbortController } of [nodes, light]) {
    const controller = new AbortController();
    controller.signal.throwIfAborted();
    controller.abort("enough");
    assert.throws(
      () => controller.signal.throwIfAborted(),
      (error) => error === "enough",
    );
  }
});
