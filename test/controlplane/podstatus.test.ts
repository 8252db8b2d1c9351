/** The fake kubelet's status of a pod must be a real one's, above all the times at which conditions changed. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Pod, podStatus, UNREADY, type WaitingReason } from "./podstatus.ts";

interface Reported {
  readonly phase: string;
  readonly startTime: string;
  readonly conditions: readonly {
    readonly type: string;
    readonly status: string;
    readonly lastTransitionTime: string;
  }[];
  readonly containerStatuses: readonly { readonly ready: boolean; readonly state: object }[];
}

const at = (second: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, second, 900));
const init = [{ name: "init", image: "init:1" }];

/** The next status of a pod that has this one, written 10 s after the kubelet first saw it, or later. */
function report(
  reason: WaitingReason,
  { second = 10, initContainers = [] as Pod["spec"]["containers"], before = {} } = {},
): Reported {
  const metadata = { name: "a-0", namespace: "db", uid: "u" };
  const pod: Pod = {
    metadata,
    spec: { containers: [{ name: "app", image: "app:1" }], initContainers },
    status: before,
  };
  const waiting = ({ name }: { readonly name: string }) => {
    return initContainers.length === 0 || name === "init" ? reason : undefined;
  };
  return podStatus(pod, waiting, "10.128.0.1", { now: at(second), seen: at(0) }) as Reported;
}

const readyOf = ({ conditions }: Reported) => conditions.find(({ type }) => type === "Ready");
const zero = "2026-01-01T00:00:00Z";

test("a pod is not Ready from its start on, and a condition keeps its time while it stays as it is", () => {
  const broken = report("CrashLoopBackOff");
  assert.equal(broken.startTime, zero);
  assert.deepEqual([readyOf(broken)?.status, readyOf(broken)?.lastTransitionTime], ["False", zero]);
  const still = report("ContainerCreating", { second: 20, before: broken });
  assert.deepEqual([still.startTime, readyOf(still)?.lastTransitionTime], [zero, zero]);
  const healed = report(undefined, { second: 30, before: still });
  assert.deepEqual([readyOf(healed)?.status, readyOf(healed)?.lastTransitionTime], ["True", "2026-01-01T00:00:30Z"]);
  const again = report(UNREADY, { second: 40, before: healed });
  assert.deepEqual([again.startTime, readyOf(again)?.lastTransitionTime], [zero, "2026-01-01T00:00:40Z"]);
});

test("a pod that becomes ready at once is Ready since then, not since its start", () => {
  assert.equal(readyOf(report(undefined))?.lastTransitionTime, "2026-01-01T00:00:10Z");
});

test("a pod whose readiness probe fails runs; one whose init container does not end is Pending", () => {
  const unready = report(UNREADY);
  const { ready, state } = unready.containerStatuses[0] ?? assert.fail();
  assert.deepEqual([unready.phase, ready, Object.keys(state)], ["Running", false, ["running"]]);
  for (const reason of [UNREADY, "CrashLoopBackOff"]) {
    const initializing = report(reason, { initContainers: init });
    assert.equal(initializing.phase, "Pending");
    assert.deepEqual(
      initializing.containerStatuses.map(({ state }) => state),
      [{ waiting: { reason: "PodInitializing", message: "PodInitializing by the fake kubelet" } }],
    );
  }
  assert.equal(report(undefined, { initContainers: init }).phase, "Running");
});
