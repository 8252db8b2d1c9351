/** Endless writes are found, and writes for which another client gave a reason are not counted. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualTimeline } from "../fake-cluster/timeline.ts";
import { createWorld } from "../fake-cluster/world.ts";
import type { Caller } from "./checker.ts";
import { LivelockChecker } from "./livelock.ts";

const namespace = "db";
const name = "data-group-a-0";
const resource = "persistentvolumeclaims";
const callerOf = (role: string, watches = "itself") =>
  ({ process: { name: `${role}-1` }, role: { name: role, watches }, views: new Map() }) as unknown as Caller;

/** A pod with a volume claim. Each write changes something. */
function scene() {
  const timeline = new VirtualTimeline();
  const world = createWorld({ timeline });
  const violations: string[] = [];
  const violate = (invariant: string, message: string) => violations.push(`${invariant} ${message}`);
  const checker = new LivelockChecker(world, violate, [resource]);
  world.addGroup({ namespace, group: "group", zones: ["a"], replicas: 1, volumes: ["data"] });
  world.settle();
  timeline.runUntil(timeline.nowMs() + 60_000);
  let count = 0;
  const others = () => world.annotate({ namespace, name }, { count: String(++count) }, resource);
  const write = (caller: Caller) => {
    others();
    checker.onWritten(caller, "patch", resource);
    timeline.runUntil(timeline.nowMs() + 1_000);
  };
  return { violations, write, others };
}

test("two functions that write one volume claim in turn are found at the 21st write in a minute", () => {
  const { violations, write } = scene();
  const [one, other] = [callerOf("suspender"), callerOf("collector")];
  for (let times = 0; times < 10; times++) for (const caller of [one, other]) write(caller);
  assert.deepEqual(violations, []);
  write(one);
  assert.match(
    violations[0] ?? "",
    /^L2 suspender-1 writes persistentvolumeclaims db\/data-group-a-0 for the 21th time/,
  );
});

test("a change by another client restarts the count, and writes of a review do not count, because a client asked for it", () => {
  const { violations, write, others } = scene();
  for (let times = 0; times < 40; times++) {
    write(callerOf("suspender"));
    if (times % 15 === 0) others();
    write(callerOf("webhook", "reviews"));
  }
  assert.deepEqual(violations, []);
});
