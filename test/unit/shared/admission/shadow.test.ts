/** The effect of shadow mode on answers (R16): one wrapper around the handler of each function that decides reviews. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { allow, badRequest } from "../../../../functions/shared/admission/answers.ts";
import type {
  AdmissionAnswer,
  AdmissionDefinition,
  AdmissionHandler,
  AdmissionRequest,
} from "../../../../functions/shared/admission/definition.ts";
import { openHandler } from "../../../../functions/shared/admission/shadow.ts";
import type { Context } from "../../../../functions/shared/contract/context.ts";
import { admissionFunctions } from "../../../../triggers/table.ts";

const request = { uid: "review" } as AdmissionRequest;
const shadow = { mode: "shadow" } as Context;

function inMode(mode: Context["mode"], handler: AdmissionHandler): AdmissionHandler {
  return openHandler({ open: () => handler }, { mode } as Context);
}

function answered(mode: Context["mode"], answer: AdmissionAnswer): Promise<AdmissionAnswer> {
  return inMode(mode, { review: async () => answer }).review(request);
}

test("in shadow mode a refusal becomes an allowance with a warning that names the zone and the refusal", async () => {
  const refusal = badRequest("a-guard", "a message", { zone: "db-a" });
  const warnings = ["in shadow mode; otherwise refused with 400: a message"];
  const through = { allowed: true, guard: "a-guard", warnings, zone: "db-a", otherwise: refusal };
  assert.deepEqual(await answered("shadow", refusal), through);
  assert.equal(await answered("act", refusal), refusal);
});

test("in shadow mode an allowance loses its change of the object, and keeps the rest", async () => {
  const allowance = allow("allowed", { patch: [{ op: "add" }], warnings: ["beware"], zone: "db-a" });
  assert.deepEqual(await answered("shadow", allowance), { ...allowance, patch: [] });
  assert.equal(await answered("act", allowance), allowance);
});

test("in shadow mode a failing review still rejects, so that its server decides the answer", async () => {
  const broken = inMode("shadow", { review: () => Promise.reject(new Error("the sky fell")) });
  await assert.rejects(broken.review(request), /the sky fell/);
});

test("in shadow mode the end of the process answers waiting reviews, as in any mode", () => {
  const ends: string[] = [];
  for (const mode of ["act", "shadow"] as const) {
    const handler = { review: async () => allow("allowed"), stop: () => void ends.push(mode) };
    inMode(mode, handler).stop?.();
    inMode(mode, { review: handler.review }).stop?.();
  }
  assert.deepEqual(ends, ["act", "shadow"]);
});

test("a process opens each function in its own mode, and in shadow mode only validation refuses a budget that can never be kept", async () => {
  const refusing = admissionFunctions.map((definition): AdmissionDefinition => {
    return { ...definition, open: () => ({ review: async () => badRequest(definition.name, "a message") }) };
  });
  const answers = refusing.map((definition) => openHandler(definition, shadow).review(request));
  const refused = (await Promise.all(answers)).filter(({ allowed }) => !allowed);
  assert.deepEqual(
    refused.map(({ guard }) => guard),
    ["validate-zone-budget"],
  );
});
