/**
 * A wait that depends on a clock does not overwrite another wait, because two processes whose clocks differ would
 * write in turn.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { now, nowMs } from "../../../support/suspended.ts";
import { decideOn, suspending } from "./given.ts";

const times = { looks: { sinceMs: 0, untilMs: nowMs }, lastRemovalMs: nowMs - 1_000 };
const blocked = { "wait-between-removals": now, "clock-unsure": { ...now, wallMs: nowMs + 86_400_000 } };

for (const [guard, clocks] of Object.entries(blocked))
  test(`a volume claim's message changes to ${guard} from a progress message, and not from another wait`, () => {
    const kinds = ["suspending", "zones-down", "budget"].map((last) => {
      const on = suspending(["b"]);
      on.annotate("b", 2, { "suspend-message": `${last}: as it was`, "suspend-pod-created": "2026-06-01T10:00:00Z" });
      const verdict = decideOn(on, { ...clocks, times });
      assert.match(verdict.kind === "wait" ? verdict.guard : verdict.message, new RegExp(guard));
      return verdict.kind;
    });
    assert.deepEqual(kinds, ["take", "wait", "wait"]);
  });
