/** What a ledger notes of downscales that have come to pass, so that the other zones of a named group wait for them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { timesAfter } from "../../../../functions/shared/transaction/claims.ts";
import { claimOf, namespace, nowMs } from "../../functions/advance-zone-rollout/given.ts";

const over = (zone: string, stampMs: number) =>
  claimOf(`${zone}:3`, "scale-down", { id: `${zone}-${stampMs}`, stampMs });

function after(
  claims: ReturnType<typeof over>[],
  { group = "group", ...ledger }: Readonly<Record<string, unknown>> = {},
) {
  return timesAfter({ ledger: { key: { namespace, group }, claims: [], ...ledger } } as never, claims).lastDownscales;
}

test("each downscale that is over is noted with its last stamp, beside those of before, and never an earlier one", () => {
  assert.deepEqual(after([over("a", nowMs)]), { a: nowMs });
  const lastDownscales = { a: nowMs + 5, b: 7 };
  assert.deepEqual(after([over("a", nowMs)], { lastDownscales }), lastDownscales);
  assert.deepEqual(after([over("a", nowMs), over("b", nowMs), over("b", nowMs - 1)], { lastDownscales }), {
    a: nowMs + 5,
    b: nowMs,
  });
  assert.deepEqual(after([over("a", 0)]), { a: 0 });
});

test("nothing is noted where none is over, no group is named, or what is noted cannot be read", () => {
  assert.equal(after([]), undefined);
  for (const group of ["", "budget:limit", "statefulset:a"])
    assert.equal(after([over("a", nowMs)], { group }), undefined);
  assert.equal(after([over("a", nowMs)], { hasMalformedTimes: true }), undefined);
});
