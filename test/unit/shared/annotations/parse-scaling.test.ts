import assert from "node:assert/strict";
import { test } from "node:test";
import {
  hasLeader,
  isMalformed,
  parseEndpoint,
  parseScaling,
  type Scaling,
} from "../../../../functions/shared/annotations/parse-scaling.ts";
import * as keys from "../../../../functions/shared/annotations/scaling.ts";
import { parseTime } from "../../../../functions/shared/clock/durations.ts";

/** The fields of a StatefulSet with these labels and annotations, by the last part of their keys. */
function given(annotations: Readonly<Record<string, string>>, labels: Readonly<Record<string, string>> = {}): Scaling {
  const named = (texts: Readonly<Record<string, string>>) =>
    Object.fromEntries(Object.entries(texts).map(([key, text]) => [`grafana.com/${key}`, text]));
  const metadata = {
    name: "a",
    uid: "u",
    resourceVersion: "1",
    annotations: named(annotations),
    labels: named(labels),
  };
  const scaling = parseScaling(metadata);
  assert.ok(scaling !== undefined);
  return scaling;
}

test("a StatefulSet without any of the keys has no scaling settings", () => {
  const metadata = { name: "a", uid: "u", resourceVersion: "1", labels: { "rollout-group": "g" } };
  assert.equal(parseScaling(metadata), undefined);
});

test("a label does not count as an annotation of the same key, nor the reverse", () => {
  assert.equal(given({ "prepare-downscale": "true", "rollout-downscale-leader": "a" }).preparesDownscale, false);
  assert.equal(given({ "rollout-downscale-leader": "a" }, { "prepare-downscale": "true" }).preparesDownscale, true);
});

test("a forced number is an int32 of 0 or above, and any other is reported and does not count", () => {
  for (const [text, replicas] of [
    ["0", 0],
    ["+3", 3],
    ["007", 7],
    ["2147483647", 2_147_483_647],
    ["2147483648", undefined],
    ["-1", undefined],
    ["", undefined],
    [" 3", undefined],
    ["1.0", undefined],
  ] as const) {
    const scaling = given({ "rollout-force-replicas": text });
    assert.equal(scaling.forced, replicas, text);
    assert.equal(isMalformed(scaling, keys.forceReplicas), replicas === undefined, text);
  }
});

test("a mirrored object needs a name and a kind, and of its version only the API group counts", () => {
  const name = "rollout-mirror-replicas-from-resource-name";
  const kind = "rollout-mirror-replicas-from-resource-kind";
  const version = "rollout-mirror-replicas-from-resource-api-version";
  assert.equal(given({ [name]: "a" }).mirrored, undefined);
  assert.equal(given({ [name]: "a", [kind]: "" }).mirrored, undefined);
  for (const [text, group] of [
    ["apps/v1", "apps"],
    ["v1", ""],
    ["", ""],
    ["/", ""],
    ["a/b/c", undefined],
  ] as const) {
    const scaling = given({ [name]: "a", [kind]: "K", [version]: text });
    assert.deepEqual(
      scaling.mirrored,
      { name: "a", kind: "K", group, isGroupAssumed: false, isWrittenBack: true },
      text,
    );
    assert.equal(hasLeader(scaling), true);
  }
});

test("without a version a mirrored StatefulSet or Deployment is in the group apps, and any other kind in the core group", () => {
  const mirrored = (kind: string, more: object = {}) =>
    given({
      "rollout-mirror-replicas-from-resource-name": "a",
      "rollout-mirror-replicas-from-resource-kind": kind,
      ...more,
    }).mirrored;
  for (const [kind, group] of [
    ["StatefulSet", "apps"],
    ["Deployment", "apps"],
    ["statefulset", ""],
    ["ReplicationController", ""],
    ["ReplicaTemplate", ""],
  ] as const)
    assert.deepEqual(mirrored(kind), { name: "a", kind, group, isGroupAssumed: true, isWrittenBack: true }, kind);
  const written = mirrored("StatefulSet", { "rollout-mirror-replicas-from-resource-api-version": "example.com/v1" });
  assert.deepEqual([written?.group, written?.isGroupAssumed], ["example.com", false]);
});

test("replicas are written back unless the annotation is false or malformed", () => {
  const at = (text: string) =>
    given({
      "rollout-mirror-replicas-from-resource-name": "a",
      "rollout-mirror-replicas-from-resource-kind": "K",
      "rollout-mirror-replicas-from-resource-write-back": text,
    }).mirrored?.isWrittenBack;
  assert.deepEqual(["1", "T", "True", "0", "F", "FALSE", "no", ""].map(at), [
    true,
    true,
    true,
    false,
    false,
    false,
    false,
    false,
  ]);
});

test("a delay needs both annotations, and a delay of 0 counts as none", () => {
  const url = "http://pod/ingester/prepare?x=1";
  const at = (delay: string, where: string) =>
    given({ "rollout-delayed-downscale": delay, "rollout-prepare-delayed-downscale-url": where });
  assert.equal(at("0", url).delay, undefined);
  assert.equal(at("0s", url).delay, undefined);
  assert.equal(at("2h", "").delay, undefined);
  const endpoint = { scheme: "http", port: 80, path: "/ingester/prepare?x=1" };
  assert.deepEqual(at("1d12h", url).delay, { delayMs: 129_600_000, endpoint });
  const wrong = at("1.5h", "pod/prepare");
  assert.deepEqual(wrong.delay, { delayMs: undefined, endpoint: undefined });
  assert.ok(isMalformed(wrong, keys.delayedDownscale) && isMalformed(wrong, keys.prepareDelayedDownscaleUrl));
});

test("a URL is used without its host, and a URL that cannot be called is malformed", () => {
  assert.deepEqual(parseEndpoint("https://user:p%40ss@pod:8443/a/b?c=d#e"), {
    scheme: "https",
    port: 8443,
    path: "/a/b?c=d",
    authorization: `Basic ${Buffer.from("user:p@ss").toString("base64")}`,
  });
  assert.deepEqual(parseEndpoint("http://pod:8080"), { scheme: "http", port: 8080, path: "/" });
  for (const text of ["pod/x", "ftp://pod/x", "http://", "http://pod:99999/x", "http:pod", "http://pod:0/"]) {
    assert.equal(parseEndpoint(text), undefined, text);
  }
});

test("a time is one of RFC 3339, and its day must exist", () => {
  assert.equal(parseTime("2026-01-31T12:00:00Z"), Date.UTC(2026, 0, 31, 12));
  assert.equal(parseTime("2026-01-31T12:00:00.5+01:00"), Date.UTC(2026, 0, 31, 11) + 500);
  for (const text of ["", "2026-01-31", "2026-02-30T00:00:00Z", "2026-01-31T12:00:00", "now", "2026-13-01T00:00:00Z"]) {
    assert.equal(parseTime(text), undefined, text);
  }
});

test("a time between zones is a Go duration of 0 or more", () => {
  const at = (text: string) => given({}, { "min-time-between-zones-downscale": text }).minTimeMs;
  assert.deepEqual(["12h", "1h30m", "0", "1d", "-1h", ""].map(at), [
    43_200_000,
    5_400_000,
    0,
    undefined,
    undefined,
    undefined,
  ]);
});
