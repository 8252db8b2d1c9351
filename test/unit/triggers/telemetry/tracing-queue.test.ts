import assert from "node:assert/strict";
import { test } from "node:test";
import { asPartOf, joinSpans, type SpanContext } from "../../../../functions/shared/base/spans.ts";
import { KeyedQueue } from "../../../../triggers/workqueue/queue.ts";
import { createVirtualClock } from "../../shared/kubernetes/virtual-clock.ts";

function spanOf(number: number): SpanContext {
  return { traceId: "1".repeat(32), spanId: String(number).padStart(16, "0"), traceFlags: 1 };
}

const [first, second, third] = [spanOf(1), spanOf(2), spanOf(3)];

test("a run is linked to every span that triggered it, also when it is tried again, but not when it requeues itself", async () => {
  const clock = createVirtualClock();
  const reported: number[][] = [];
  const queue = new KeyedQueue<string>({
    clock,
    nameOf: (key) => key,
    async run(_, { triggeredBy = [] }) {
      reported.push(triggeredBy.map(({ spanId }) => Number(spanId)));
      if (reported.length === 1) throw new Error("the first run fails");
      return { requeueAfterMs: reported.length === 2 ? 1_000 : undefined, pendingActs: undefined };
    },
    onFailure() {},
    gatherMs: 20,
    concurrency: 1,
    capacity: 10,
    random: () => 1,
  });
  for (const waker of [first, second, first]) queue.offer("a", { sweep: false, triggeredBy: [waker] });
  await clock.goTo(50);
  queue.offer("a", { sweep: false, triggeredBy: [third] });
  await clock.goTo(10_000);
  assert.deepEqual(reported, [[1, 2], [1, 2, 3], []]);
});

test("a flood of triggers leaves as many links as a span keeps", () => {
  const many = Array.from({ length: 1_000 }, (_, number) => spanOf(number));
  const joined = many.reduce<readonly SpanContext[]>((some, one) => joinSpans(some, [one]), []);
  assert.deepEqual(joined, many.slice(0, 128));
});

test("before the SDK has started, work is done without spans", () => {
  assert.equal(
    asPartOf([first], () => 7),
    7,
  );
  assert.equal(
    asPartOf([], () => 8),
    8,
  );
});
