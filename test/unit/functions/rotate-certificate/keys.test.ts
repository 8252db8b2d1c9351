/** Decisions about review keys: which configuration gets the key into its paths, when, and what does not wait for that. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type CertificateSnapshot,
  type Configuration,
  decide,
  type RotationStep,
} from "../../../../functions/rotate-certificate/decide.ts";
import type { Generation } from "../../../../functions/shared/certificates/secret.ts";
import { known } from "../../../support/certificate-world.ts";

const name = "sluice.ops.svc";
const minuteMs = 60_000;
const startMs = Date.parse("2026-11-21T12:00:00Z");
const { current } = known.reviewKeys;
const other = "d".repeat(64);

/** Valid for 90 minutes, so that its renewal is due after 60. */
function generation(ca: string, beginsMs = startMs): Generation {
  const dates = { notBeforeMs: beginsMs, notAfterMs: beginsMs + 90 * minuteMs };
  return { ca, cert: `cert of ${ca}`, key: `key of ${ca}`, dnsNames: [name], ...dates };
}

function configuration(webhook: string, pathKeys: Configuration["pathKeys"], more: object = {}): Configuration {
  return {
    resource: "validatingwebhookconfigurations",
    object: { metadata: { name: webhook, uid: webhook, resourceVersion: "1" } },
    bundles: [["A"]],
    pathKeys,
    refusal: undefined,
    keyRefusal: undefined,
    isForeign: false,
    ...more,
  };
}

const next = generation("B", startMs + 60 * minuteMs);

function decideAt(
  configurations: readonly Configuration[],
  changes: Partial<CertificateSnapshot> = {},
  afterMinutes = 1,
): RotationStep {
  return decide({
    nowMs: startMs + afterMinutes * minuteMs,
    dnsName: name,
    configurations,
    creationRefused: undefined,
    updatesBundles: true,
    elsewhere: [],
    unseen: undefined,
    trustedForMs: 0,
    ...known,
    stored: { presented: generation("A"), next: undefined, previous: [] },
    ...changes,
  });
}

/** What a patch writes: which configurations, and whether with a key. */
function patched(step: RotationStep): object {
  assert.ok(step.kind === "patch", JSON.stringify(step));
  return { names: step.configurations.map(({ object }) => object.metadata.name), reviewKey: step.reviewKey };
}

function waited(step: RotationStep): [guard: string, requeueAfterMs: number | undefined] {
  assert.ok(step.kind === "wait", JSON.stringify(step));
  return [step.guard, step.requeueAfterMs];
}

test("a path without a key, with an old one or with a foreign one gets the current key, and no other path does", () => {
  const configurations = [
    configuration("plain", [undefined]),
    configuration("old", [current, other]),
    configuration("good", [current, current]),
    configuration("unlabelled", []),
  ];
  assert.deepEqual(patched(decideAt(configurations)), { names: ["plain", "old"], reviewKey: current });
  assert.equal(decideAt(configurations.slice(2)).kind, "done");
});

test("a path gets a key after this process has known it for 20 s, and until then the guard is key-spreading", () => {
  const configurations = [configuration("plain", [undefined])];
  const after = (keyKnownForMs: number) => decideAt(configurations, { keyKnownForMs });
  assert.deepEqual(waited(after(0)), ["key-spreading", 20_000]);
  assert.deepEqual(waited(after(19_999)), ["key-spreading", 1]);
  assert.deepEqual(patched(after(20_000)), { names: ["plain"], reviewKey: current });
  const due = decideAt(configurations, { keyKnownForMs: 0 }, 60 - 1 / 12);
  assert.deepEqual(waited(due), ["key-spreading", 5_000], "a renewal is due before");
});

test("Sluice writes a bundle without the key while the key spreads, and with it if both are due", () => {
  const configurations = [configuration("both", [undefined], { bundles: [[]] }), configuration("good", [current])];
  const early = decideAt(configurations, { keyKnownForMs: 19_999 });
  assert.deepEqual(patched(early), { names: ["both"], reviewKey: undefined });
  assert.deepEqual(patched(decideAt(configurations)), { names: ["both"], reviewKey: current });
});

test("a promotion does not wait for paths, whether its key still spreads or the API server refused it", () => {
  const stored = { presented: generation("A"), next, previous: [] };
  const given = { bundles: [["A", "B"]] };
  const spreading = [configuration("plain", [undefined], given)];
  const changes = { stored, keyKnownForMs: 0 };
  assert.deepEqual(waited(decideAt(spreading, changes, 61)), ["trust-spreading", 5_000]);
  assert.equal(decideAt(spreading, { ...changes, trustedForMs: 5_000 }, 61).kind, "promote");
  const refused = [configuration("plain", [undefined], { ...given, keyRefusal: "no" })];
  assert.equal(decideAt(refused, { stored, trustedForMs: 5_000 }, 61).kind, "promote");
});

test("after a refusal of a key Sluice writes the bundle without it, and reports the refusal while nothing else is due", () => {
  const refused = configuration("plain", [undefined], { keyRefusal: "plain was refused with 422: no" });
  const step = decideAt([refused]);
  assert.deepEqual(waited(step), ["configuration-refused", 30_000]);
  assert.ok(
    step.kind === "wait" && step.message === "not every path has the review key: plain was refused with 422: no",
  );
  const both = { ...refused, bundles: [[]] };
  assert.deepEqual(patched(decideAt([both, configuration("other", [undefined])])), {
    names: ["plain", "other"],
    reviewKey: current,
  });
  assert.equal(waited(decideAt([refused], { keyKnownForMs: 0 }))[0], "key-spreading");
  const whole = configuration("plain", [undefined], { refusal: "no right" });
  assert.deepEqual(waited(decideAt([whole])), ["configuration-refused", 30_000]);
});

test("while the API server refuses a bundle, a key that spreads brings the next run forward", () => {
  const configurations = [
    configuration("refused", [], { bundles: [[]], refusal: "no" }),
    configuration("plain", [undefined]),
  ];
  assert.deepEqual(patched(decideAt(configurations)), { names: ["plain"], reviewKey: current });
  const wait = (keyKnownForMs: number) => waited(decideAt(configurations, { keyKnownForMs }));
  assert.deepEqual(wait(0), ["configuration-refused", 20_000]);
  assert.deepEqual(wait(15_000), ["configuration-refused", 5_000]);
  assert.deepEqual(waited(decideAt(configurations.slice(0, 1))), ["configuration-refused", 30_000]);
});

test("a certificate without a key gets one by a separate write, also if others write the bundles", () => {
  const keyFault = "there is no review-key";
  const reviewKeys = { current: undefined, next: undefined, previous: undefined };
  const given = { keyFault, reviewKeys, keyKnownForMs: 0 };
  const wanted = { kind: "generate-key", because: keyFault };
  assert.deepEqual(decideAt([configuration("plain", [undefined])], given), wanted);
  assert.deepEqual(decideAt([], { ...given, updatesBundles: false }), wanted);
  const untrusted = decideAt([configuration("plain", [undefined], { bundles: [[]] })], given);
  assert.deepEqual(patched(untrusted), { names: ["plain"], reviewKey: undefined }, "reviews fail without the bundle");
  const refused = configuration("plain", [undefined], { bundles: [[]], refusal: "no" });
  assert.deepEqual(decideAt([refused], given), wanted, "a refusal does not delay it");
  const expired = decideAt([], given, 90);
  assert.ok(expired.kind === "generate" && expired.as === "presented", "a new certificate brings a key");
});

test("with UPDATE_CA_BUNDLE=false Sluice writes no path", () => {
  const step = decideAt([configuration("plain", [undefined])], { updatesBundles: false });
  assert.equal(step.kind, "done");
});
