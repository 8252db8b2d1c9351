/** The rotation of certificates exactly at the times of its rules. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type CertificateSnapshot,
  type Configuration,
  decide,
  type RotationStep,
} from "../../../../functions/rotate-certificate/decide.ts";
import type { Generation } from "../../../../functions/shared/certificates/secret.ts";
import { keyless, known } from "../../../support/certificate-world.ts";

const name = "sluice.ops.svc";
const minuteMs = 60_000;
const startMs = Date.parse("2026-11-21T12:00:00Z");

function generation(ca: string, beginsMs: number, lastsMs = 90 * minuteMs): Generation {
  const dates = { notBeforeMs: beginsMs, notAfterMs: beginsMs + lastsMs };
  return { ca, cert: `cert of ${ca}`, key: `key of ${ca}`, dnsNames: [name], ...dates };
}

function configuration(trusted: readonly string[], refusal?: string): Configuration {
  const metadata = { name: "one", uid: "one", resourceVersion: "1" };
  return {
    resource: "validatingwebhookconfigurations",
    object: { metadata },
    bundles: [trusted],
    refusal,
    isForeign: false,
    ...keyless,
  };
}

const first = generation("A", startMs);
const second = generation("B", startMs + 60 * minuteMs);

function decideAt(nowMs: number, stored: object, changes: Partial<CertificateSnapshot> = {}): RotationStep {
  return decide({
    nowMs,
    dnsName: name,
    configurations: [configuration(["A", "B"])],
    creationRefused: undefined,
    updatesBundles: true,
    elsewhere: [],
    unseen: undefined,
    trustedForMs: 0,
    ...known,
    stored: { presented: first, next: undefined, previous: [], ...stored },
    ...changes,
  });
}

const requeueOf = (step: RotationStep): number | undefined => (step.kind === "wait" ? step.requeueAfterMs : undefined);
const lastMomentMs = first.notAfterMs - 10_000;

test("Sluice tries a failed step again after thirty seconds, and at the latest in the last moment of the old certificate", () => {
  const unreadable = decideAt(startMs, {}, { stored: { unreadable: "its data key key is missing" } });
  assert.equal(requeueOf(unreadable), 30_000);
  const configurations = [configuration(["A"], "it was refused")];
  const refused = (nowMs: number) => decideAt(nowMs, { next: second }, { configurations });
  assert.equal(requeueOf(refused(lastMomentMs - 30_001)), 30_000);
  assert.equal(requeueOf(refused(lastMomentMs - 29_999)), 29_999);
  assert.equal(requeueOf(refused(lastMomentMs - 1)), 1);
  assert.equal(refused(lastMomentMs).kind, "promote");
});

test("the five seconds of trust end early if the old certificate expires before", () => {
  assert.equal(requeueOf(decideAt(lastMomentMs - 5_001, { next: second })), 5_000);
  assert.equal(requeueOf(decideAt(lastMomentMs - 4_999, { next: second })), 4_999);
});

test("a certificate that lasts seconds is in its last moment before it is due: Sluice has none to present, and this is no error", () => {
  const brief = generation("A", startMs, 15_000);
  const trusted = [configuration(["A"])];
  assert.equal(decideAt(startMs + 6_000, { presented: brief }, { configurations: trusted }).kind, "done");
  const refused = decideAt(
    startMs + 6_000,
    { presented: brief },
    { configurations: [configuration([], "it was refused")] },
  );
  assert.equal(requeueOf(refused), 0);
});

test("Sluice does not present a next certificate that is itself due for renewal, neither at that moment nor later", () => {
  const dueMs = startMs + 120 * minuteMs;
  const presented = generation("A", startMs, 180 * minuteMs);
  const trusted = { trustedForMs: 5_000 };
  assert.equal(decideAt(dueMs - 1, { presented, next: second }, trusted).kind, "promote");
  assert.equal(decideAt(dueMs, { presented, next: second }, trusted).kind, "generate");
});

test("the certificate that follows keeps every authority that has not expired, and its own only once", () => {
  const was = (ca: string, notAfterMs: number) => ({ ca, notAfterMs });
  const nowMs = startMs + 61 * minuteMs;
  const previous = [was("P", nowMs + 1), was("Q", nowMs), was("B", nowMs + minuteMs)];
  const configurations = [configuration(["A", "B", "P"])];
  const step = decideAt(nowMs, { next: second, previous }, { configurations, trustedForMs: 5_000 });
  assert.ok(step.kind === "promote");
  assert.deepEqual(step.previous, [was("A", first.notAfterMs), was("P", nowMs + 1)]);
  const empty = decideAt(nowMs, { presented: undefined, next: second, previous });
  assert.ok(empty.kind === "promote");
  assert.deepEqual(empty.previous, [was("P", nowMs + 1)]);
});

test("at the moment an authority expires no configuration must trust it, but each may", () => {
  const nowMs = startMs + 10 * minuteMs;
  const previous = [{ ca: "Z", notAfterMs: nowMs }];
  for (const trusted of [["A"], ["A", "Z"]]) {
    assert.equal(
      decideAt(nowMs, { previous }, { configurations: [configuration(trusted)] }).kind,
      "done",
      trusted.join(),
    );
  }
});
