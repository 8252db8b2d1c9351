import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import type { Access } from "../../../../functions/shared/kubernetes/configuration.ts";
import { retryDecision } from "../../../../functions/shared/kubernetes/retry.ts";

type Failed = Parameters<typeof retryDecision>[0];
type State = Parameters<typeof retryDecision>[1];

const now = { nowMs: 1_000, notAfterMs: 9_000, jitter: 0 };
const first: State = { ...now, repeatable: true, ended: false, tries: 1, renewed: false };
const access = {} as Access;

function failed(
  code: number,
  more: { unsent?: boolean; late?: boolean; retryAfterMs?: number; message?: string } = {},
) {
  const { unsent = false, late = false, retryAfterMs, message = "no" } = more;
  const error = new ClusterError({ code, reason: "Any", message, verb: "get", resource: "pods", retryAfterMs });
  return { error, unsent, late } satisfies Failed;
}

describe("whether a request is tried again", () => {
  const cases: readonly (readonly [string, Failed, Partial<State>, ReturnType<typeof retryDecision>])[] = [
    ["a repeatable one after a failure of the server", failed(503), {}, { delayMs: 100 }],
    ["and one that is not repeatable", failed(503), { repeatable: false }, "give-up"],
    ["not repeatable, but never sent", failed(0, { unsent: true }), { repeatable: false }, { delayMs: 100 }],
    ["not repeatable, but refused unread", failed(429), { repeatable: false }, { delayMs: 100 }],
    ["the second delay is twice as long", failed(503), { tries: 2 }, { delayMs: 200 }],
    ["and half of it more at most", failed(503), { tries: 2, jitter: 1 }, { delayMs: 300 }],
    ["a third try is the last", failed(503), { tries: 3 }, "give-up"],
    ["Retry-After is waited for", failed(429, { retryAfterMs: 5_000 }), {}, { delayMs: 5_000 }],
    ["unless it is too long", failed(429, { retryAfterMs: 5_001 }), {}, "give-up"],
    ["the last moment is in time", failed(503), { notAfterMs: 1_100 }, { delayMs: 100 }],
    ["one later is not", failed(503), { notAfterMs: 1_099 }, "give-up"],
    ["what is too late is not waited for", failed(0, { unsent: true, late: true }), {}, "give-up"],
    ["refused credentials are renewed", { ...failed(401), access }, { repeatable: false, tries: 3 }, { renew: access }],
    ["once", { ...failed(401), access }, { renewed: true }, "give-up"],
    ["a call that was given up is not", { ...failed(401), access }, { ended: true }, "give-up"],
    ["a refusal is final", failed(403), {}, "give-up"],
    ["so is a view too old", failed(504, { message: "Too large resource version: 9" }), {}, "give-up"],
  ];
  for (const [name, outcome, state, decision] of cases) {
    test(name, () => assert.deepEqual(retryDecision(outcome, { ...first, ...state }), decision));
  }
});
