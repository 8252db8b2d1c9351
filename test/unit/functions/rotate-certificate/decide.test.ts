import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type CertificateSnapshot,
  type Configuration,
  decide,
  type RotationStep,
} from "../../../../functions/rotate-certificate/decide.ts";
import {
  type Authority,
  type Generation,
  howToEmpty,
  type StoredCertificates,
} from "../../../../functions/shared/certificates/secret.ts";
import { keyless, known } from "../../../support/certificate-world.ts";

const secondMs = 1_000;
const minuteMs = 60_000;
const startMs = Date.parse("2026-11-21T12:00:00Z");
const name = "rollout-operator.mimir.svc";

/** Valid for 90 minutes, so that its renewal is due after 60 minutes. */
function generation(ca: string, beginsMs = startMs, dnsNames: readonly string[] = [name]): Generation {
  const notAfterMs = beginsMs + 90 * minuteMs;
  return { ca, cert: `cert of ${ca}`, key: `key of ${ca}`, dnsNames, notBeforeMs: beginsMs, notAfterMs };
}

function configuration(webhook: string, trusted: readonly string[], refusal?: string): Configuration {
  const metadata = { name: webhook, uid: webhook, resourceVersion: "1" };
  return {
    resource: "validatingwebhookconfigurations",
    object: { metadata },
    bundles: [trusted],
    refusal,
    isForeign: false,
    ...keyless,
  };
}

interface Given extends Partial<Omit<CertificateSnapshot, "stored" | "nowMs">> {
  readonly afterMinutes?: number;
  readonly stored?: Partial<StoredCertificates>;
}

function decideAt({ afterMinutes = 1, stored, ...rest }: Given = {}): RotationStep {
  return decide({
    nowMs: startMs + afterMinutes * minuteMs,
    dnsName: name,
    configurations: [configuration("one", ["A"])],
    creationRefused: undefined,
    updatesBundles: true,
    elsewhere: [],
    unseen: undefined,
    trustedForMs: 0,
    ...known,
    stored: { presented: generation("A"), next: undefined, previous: [], ...stored },
    ...rest,
  });
}

function guardOf(step: RotationStep): string | undefined {
  return step.kind === "wait" ? step.guard : undefined;
}

const next = generation("B", startMs + 60 * minuteMs);
const both = [configuration("one", ["A", "B"])];
const was = (ca: string, expiresAfterMinutes: number): Authority => ({
  ca,
  notAfterMs: startMs + expiresAfterMinutes * minuteMs,
});

test("without a Secret, or with an empty one, Sluice makes a certificate and presents it at once", () => {
  const snapshot = {
    nowMs: startMs,
    dnsName: name,
    creationRefused: undefined,
    updatesBundles: true,
    elsewhere: [],
    configurations: [],
    unseen: undefined,
    trustedForMs: 0,
    ...known,
  };
  const missing = decide({ ...snapshot, stored: undefined });
  const because = "there is no Secret with a certificate";
  assert.deepEqual(missing, { kind: "generate", as: "presented", dnsNames: [name], because });
  const empty = decide({ ...snapshot, stored: { presented: undefined, next: undefined, previous: [] } });
  assert.ok(empty.kind === "generate" && empty.as === "presented");
});

test("Sluice never overwrites a Secret that it cannot parse, and the message says what to do", () => {
  const unreadable = `its data key key is missing; ${howToEmpty({ namespace: "mimir", name: "certificate" })}`;
  const snapshot = {
    nowMs: startMs,
    dnsName: name,
    creationRefused: undefined,
    updatesBundles: true,
    elsewhere: [],
    configurations: both,
    unseen: undefined,
    trustedForMs: 0,
    ...known,
  };
  const step = decide({ ...snapshot, stored: { unreadable } });
  assert.equal(guardOf(step), "secret-unreadable");
  assert.equal(
    step.kind === "wait" && step.message,
    "the Secret cannot be used: its data key key is missing; empty it, and it is filled again: " +
      `kubectl -n mimir patch secret certificate --type merge --patch '{"data":null}'`,
  );
});

test("Sluice keeps a certificate for two thirds of its life, and reconciles again when it is due", () => {
  const early = decideAt({ afterMinutes: 15 });
  assert.ok(early.kind === "done" && !early.prepare);
  assert.equal(early.requeueAfterMs, 30 * minuteMs);
  const half = decideAt({ afterMinutes: 45 });
  assert.ok(half.kind === "done" && half.prepare, "keys are searched for before they are needed");
  assert.equal(half.requeueAfterMs, 15 * minuteMs);
  assert.equal(decideAt({ afterMinutes: 60 - 1 / 60 }).kind, "done");
  const due = decideAt({ afterMinutes: 60 });
  const because = "two thirds of its lifetime are over";
  assert.deepEqual(due, { kind: "generate", as: "next", dnsNames: [name], because });
});

test("Sluice does not present the next certificate before it has seen for five seconds that every configuration trusts it", () => {
  const one = configuration("one", ["A", "B"]);
  const other = configuration("other", ["A"]);
  const lacking = decideAt({ afterMinutes: 61, stored: { next }, configurations: [one, other], trustedForMs: 0 });
  assert.ok(lacking.kind === "patch");
  assert.deepEqual(lacking.configurations, [other]);
  assert.deepEqual(lacking.authorities, ["A", "B"], "the old one is trusted as before");
  const fresh = decideAt({ afterMinutes: 61, stored: { next }, configurations: both, trustedForMs: 0 });
  assert.equal(guardOf(fresh), "trust-spreading");
  const almost = decideAt({ afterMinutes: 61, stored: { next }, configurations: both, trustedForMs: 4_999 });
  assert.deepEqual([guardOf(almost), almost.kind === "wait" && almost.requeueAfterMs], ["trust-spreading", 1]);
  const ready = decideAt({ afterMinutes: 61, stored: { next }, configurations: both, trustedForMs: 5_000 });
  assert.ok(ready.kind === "promote" && ready.next === next);
  assert.deepEqual(ready.previous, [was("A", 90)], "it stays trusted until it expires");
});

test("a configuration with one webhook left out, and one with an empty bundle, still need our bundle", () => {
  const object = configuration("one", []).object;
  const half: Configuration = { ...configuration("one", []), object, bundles: [["A", "B"], ["A"]] };
  const step = decideAt({ afterMinutes: 61, stored: { next }, configurations: [half], trustedForMs: 9_999 });
  assert.equal(step.kind, "patch");
  assert.equal(decideAt({ configurations: [configuration("one", [])] }).kind, "patch");
  assert.equal(decideAt({ configurations: [] }).kind, "done");
});

test("a configuration whose bundle another client has overwritten gets ours back, without that client's authority", () => {
  const step = decideAt({ configurations: [configuration("one", ["A", "X"])] });
  assert.ok(step.kind === "patch");
  assert.deepEqual(step.authorities, ["A"]);
});

test("earlier authorities stay trusted until they expire, and are removed a minute later", () => {
  const previous = [was("P", 30)];
  const living = decideAt({ afterMinutes: 29, stored: { previous } });
  assert.ok(living.kind === "patch");
  assert.deepEqual(living.authorities, ["A", "P"]);
  const carried = [configuration("one", ["P", "A"])];
  assert.equal(decideAt({ afterMinutes: 29, stored: { previous }, configurations: carried }).kind, "done");
  assert.equal(decideAt({ afterMinutes: 30.9, stored: { previous }, configurations: carried }).kind, "done");
  assert.equal(
    decideAt({ afterMinutes: 30.9, stored: { previous } }).kind,
    "done",
    "the function does not put it back meanwhile",
  );
  const late = decideAt({ afterMinutes: 31, stored: { previous }, configurations: carried });
  assert.ok(late.kind === "patch");
  assert.deepEqual(late.authorities, ["A"]);
});

test("a configuration that refuses delays the others until the old certificate is about to expire, and no longer", () => {
  const refused = [configuration("one", ["A"], "one was refused with 403: no"), configuration("other", ["A", "B"])];
  const given = { stored: { next }, configurations: refused };
  const step = decideAt({ ...given, afterMinutes: 61 });
  assert.equal(guardOf(step), "configuration-refused");
  assert.match(step.kind === "wait" ? step.message : "", /one was refused with 403: no$/);
  const soon = decideAt({ ...given, afterMinutes: 90 - 11 / 60 });
  assert.equal(soon.kind === "wait" && Math.round(soon.requeueAfterMs ?? 0), secondMs);
  assert.equal(decideAt({ ...given, afterMinutes: 90 - 10 / 60 }).kind, "promote");
  const unseen = decideAt({ afterMinutes: 61, configurations: [], unseen: "may not list" });
  assert.equal(unseen.kind, "generate", "a certificate that no configuration trusts yet is better than an expired one");
  assert.equal(guardOf(decideAt({ configurations: [], unseen: "may not list" })), "configuration-refused");
});

test("a configuration that Sluice may not write delays nothing, unless it trusts the certificate that Sluice presents now", () => {
  const ours = configuration("ours", ["A", "B"]);
  const foreign = (trusted: readonly string[]) => ({
    ...configuration("theirs", trusted, "no right"),
    isForeign: true,
  });
  const given = (trusted: readonly string[]) => ({ configurations: [ours, foreign(trusted)], trustedForMs: 5_000 });
  assert.equal(decideAt({ afterMinutes: 61, stored: { next }, ...given([]) }).kind, "promote");
  assert.equal(decideAt({ configurations: [foreign([])] }).kind, "done");
  const blocked = decideAt({ afterMinutes: 61, stored: { next }, ...given(["A"]) });
  assert.equal(guardOf(blocked), "configuration-refused", "its reviews would fail");
  const refused = configuration("ours", [], "no right");
  assert.equal(guardOf(decideAt({ configurations: [refused] })), "configuration-refused");
});

test("if others write the bundles Sluice writes none, and the next certificate waits until all of them have its authority", () => {
  const given = { afterMinutes: 61, updatesBundles: false, stored: { next } };
  assert.equal(decideAt({ updatesBundles: false, configurations: [configuration("one", ["X"])] }).kind, "done");
  const lacking = ["A", "A", "B"].map((ca, index) => configuration(`${index}`, [ca, "X"]));
  const step = decideAt({ ...given, configurations: lacking });
  assert.equal(guardOf(step), "bundle-awaited");
  assert.match(step.kind === "wait" ? step.message : "", /next-ca of the Secret to caBundle of \S+\/0, and of 1 more$/);
  const unregistered = decideAt({ ...given, configurations: [], trustedForMs: 60_000 });
  assert.equal(guardOf(unregistered), "bundle-awaited", "who is not seen may ask us all the same");
  const strange = [configuration("one", ["B", "X"])];
  assert.equal(guardOf(decideAt({ ...given, configurations: strange, trustedForMs: 4_999 })), "trust-spreading");
  assert.equal(decideAt({ ...given, configurations: strange, trustedForMs: 5_000 }).kind, "promote");
  assert.equal(decideAt({ ...given, afterMinutes: 90 - 10 / 60, configurations: [] }).kind, "promote");
});

test("Sluice looks up a Secret that it may not create every five seconds, and makes no keys for it", () => {
  const step = decide({
    nowMs: startMs,
    dnsName: name,
    creationRefused: "the namespace is not there",
    updatesBundles: true,
    elsewhere: [],
    configurations: [],
    unseen: undefined,
    trustedForMs: 0,
    ...known,
    stored: undefined,
  });
  assert.ok(step.kind === "wait");
  assert.deepEqual(
    [step.guard, step.message, step.requeueAfterMs],
    ["secret-missing", "the namespace is not there", 5_000],
  );
});

test("while the function waits for others, it reconciles again in half a minute, or when the certificate in use is about to expire", () => {
  const given = { updatesBundles: false, stored: { next } };
  const requeueAt = (afterMinutes: number) => {
    const step = decideAt({ ...given, afterMinutes, configurations: [] });
    assert.ok(step.kind === "wait");
    return step.requeueAfterMs;
  };
  assert.equal(requeueAt(61), 30_000);
  assert.equal(requeueAt(90 - 15 / 60), 5_000);
});

test("a configuration trusts the next certificate when each of its webhooks does; if there is no configuration, Sluice names the clients", () => {
  const given = { afterMinutes: 61, updatesBundles: false, stored: { next }, trustedForMs: 5_000 };
  const half = { ...configuration("half", []), bundles: [["A", "B"], ["A"]] };
  assert.equal(guardOf(decideAt({ ...given, configurations: [half] })), "bundle-awaited");
  const unregistered = decideAt({ ...given, configurations: [] });
  assert.match(unregistered.kind === "wait" ? unregistered.message : "", / to caBundle of whatever asks us$/);
  const foreign = { ...half, isForeign: true };
  assert.equal(
    decideAt({ configurations: [{ ...foreign, bundles: [["A"], []] }] }).kind,
    "done",
    "it never trusted us",
  );
  assert.equal(decideAt({ configurations: [foreign] }).kind, "patch", "all of it trusts us, and another server, too");
});

test("Sluice writes each configuration that it may write, whichever other one refuses", () => {
  const refused = configuration("one", ["A"], "no");
  const step = decideAt({
    afterMinutes: 61,
    stored: { next },
    configurations: [refused, configuration("other", ["A"])],
  });
  assert.ok(step.kind === "patch");
  assert.deepEqual(
    step.configurations.map(({ object }) => object.metadata.name),
    ["other"],
  );
});

test("after the certificate has expired the function waits for nothing", () => {
  const step = decideAt({ afterMinutes: 90 });
  assert.ok(step.kind === "generate" && step.as === "presented");
  const staged = decideAt({ afterMinutes: 90, stored: { next }, trustedForMs: 0 });
  assert.ok(staged.kind === "promote" && staged.next === next);
  assert.deepEqual(staged.previous, []);
});

test("a changed name leads to a new certificate at once, for both names, so that replicas with the old setting need no other", () => {
  const renamed = decideAt({ dnsName: "sluice.ops.svc" });
  assert.ok(renamed.kind === "generate" && renamed.as === "next");
  assert.deepEqual(renamed.dnsNames, ["sluice.ops.svc", name]);
  const staged = { next: generation("B", startMs, renamed.dnsNames) };
  for (const dnsName of renamed.dnsNames) {
    const step = decideAt({ dnsName, stored: staged, configurations: both, trustedForMs: 5_000 });
    assert.equal(step.kind, "promote", dnsName);
  }
});

test("Sluice does not use a next certificate from long ago, or for another name, and makes a new one", () => {
  const old = { next: generation("B", startMs - 60 * minuteMs) };
  const step = decideAt({ afterMinutes: 60, stored: old, configurations: both, trustedForMs: 9_999 });
  assert.ok(step.kind === "generate" && step.as === "next");
  const other = { next: generation("B", startMs, ["elsewhere"]) };
  const unused = decideAt({ afterMinutes: 1, stored: other, configurations: both });
  assert.ok(unused.kind === "patch", "and no configuration is to trust it");
  assert.deepEqual(unused.authorities, ["A"]);
});
