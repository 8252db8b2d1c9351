/** A URL may contain a password: no Event, message or error shows its account, its query, or any part of a malformed URL. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { parseScaling } from "../../../../functions/shared/annotations/parse-scaling.ts";
import { prepareDownscalePath } from "../../../../functions/shared/annotations/scaling.ts";
import { annotationTable, type Malformed, read } from "../../../../functions/shared/annotations/table.ts";
import { showValue, unshown } from "../../../../functions/shared/base/escape-control.ts";
import { placeOf, refusal } from "../../../../functions/shared/http/pod-http.ts";
import { prepareEndpointOf } from "../../../../functions/shared/scaling/prepared.ts";
import { parseStatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";
import { readKeyPair } from "../../../../triggers/server/certificate-source.ts";
import { readFlags } from "../../../../triggers/settings/flags.ts";
import { flags } from "../../../../triggers/settings/flags-table.ts";
import { readSettings, settingsTable } from "../../../../triggers/settings/settings.ts";
import { readTracing } from "../../../../triggers/telemetry/tracing-settings.ts";
import { Harness, ledgerKey, namespace } from "../reconcile/harness.ts";

const password = "p4ssw0rd";
/** Each contains the password, and some of them are malformed. */
const urls = [
  `http://user:${password}@pod:8080/prepare`,
  `http://user:${password}@:8080/prepare{pod}`,
  `http://user:${password}`,
  `http//user:${password}@pod/`,
  `user:${password}@pod`,
  `http://:8080 /?token=${password}`,
  `:8080/x?token=${password}`,
  `ftp://pod/${password}`,
  `http://pod:99999/?${password}`,
  `//${password}@pod`,
  `http://user:${password}@pod:port/`,
];

function metadataWith(texts: Readonly<Record<string, string>>) {
  return { name: "a", namespace, uid: "u", resourceVersion: "1", annotations: texts, labels: texts };
}

/** The reports about a StatefulSet with this text, whichever code reads it. */
function messagesOf(entryKey: string, text: string): string[] {
  const entry = annotationTable.find((one) => one.key === entryKey);
  assert.ok(entry !== undefined, entryKey);
  const malformed: Malformed[] = [];
  read(entry as Parameters<typeof read>[0], metadataWith({ [entryKey]: text }), malformed);
  const scaling = parseScaling(metadataWith({ "grafana.com/rollout-delayed-downscale": "1h", [entryKey]: text }));
  return [...malformed, ...(scaling?.malformed ?? [])].map(({ message }) => message);
}

const ofUrls = [
  "sluice.dev/health-url",
  "sluice.dev/drain-url",
  "grafana.com/rollout-prepare-delayed-downscale-url",
] as const;

test("a message about a malformed URL names its annotation, and shows no part of it", () => {
  for (const name of ofUrls) {
    const messages = urls.flatMap((text) => messagesOf(name, text));
    assert.ok(messages.length >= 5, `${name} ${messages.length}`);
    for (const reason of messages) {
      assert.ok(reason.startsWith(`annotation ${name} is ${unshown}; write `), reason);
      assert.ok(!reason.includes(password), reason);
    }
    for (const text of ["pod", "zzz zzz"]) {
      for (const reason of messagesOf(name, text)) assert.ok(!reason.includes(`"${text}`), reason);
    }
  }
});

test("a message shows no part of a URL that was written into another label or annotation", () => {
  for (const { key: name, on } of annotationTable) {
    if (on === "Lease") continue;
    for (const text of urls) {
      for (const reason of messagesOf(name, text)) assert.ok(!reason.includes(password), `${name}: ${reason}`);
    }
  }
});

test("a message does not show a malformed path, because its query may hold a password", () => {
  const world = new Harness().world;
  const object = world.store.get("statefulsets", { namespace, name: "group-a" });
  const annotations = {
    "grafana.com/prepare-downscale-http-port": "80",
    [prepareDownscalePath.key]: `a b?token=${password}`,
  };
  const labels = { ...object.metadata.labels, "grafana.com/prepare-downscale": "true" };
  const found = prepareEndpointOf(
    parseStatefulSet({ ...object, metadata: { ...object.metadata, labels, annotations } }),
  );
  assert.ok("guard" in found);
  assert.equal(found.guard, "prepare-path-malformed");
  assert.ok(!found.message.includes("token"), found.message);
});

test("a message about a failed call to a pod shows the path without its query", () => {
  const address = { scheme: "http", pod: "a-0", service: "a", namespace, group: "g", port: 80 } as const;
  const request = { method: "POST", path: `/ask?token=${password}&b=?` } as const;
  assert.equal(placeOf(address, request), "POST a-0.a in db, port 80, path /ask");
  const error = refusal(address, request, { status: 500, headers: {}, body: "no" } as never);
  assert.equal(error.message, "POST a-0.a in db, port 80, path /ask: HTTP 500 no");
});

test("no Event, no verdict and no report of a reconcile shows the password of a malformed URL", async () => {
  for (const text of urls) {
    const harness = await new Harness({ zones: ["a"] }).prepare();
    const url = { "sluice.dev/health-question": "http", "sluice.dev/health-url": text };
    const delay = { "grafana.com/rollout-delayed-downscale": "1h", [ofUrls[2]]: text, [ofUrls[1]]: text };
    harness.world.annotate({ namespace, name: "group-a" }, { ...url, ...delay });
    await harness.run(true);
    await harness.goOn(1_000);
    assert.equal(harness.guard, "question-malformed");
    assert.ok(
      harness.events.some((event) => event.startsWith("MalformedAnnotation group-a: annotation sluice.dev/health-url")),
    );
    const { annotations } = harness.world.store.get("leases", ledgerKey).metadata;
    const verdicts = harness.verdicts.map(({ message }) => message);
    const written = [...harness.events, ...verdicts, ...harness.problems, JSON.stringify(annotations)];
    for (const one of written) assert.ok(!one.includes(password), one);
  }
});

test("the message about a malformed setting or flag shows no URL, no account and no key", async () => {
  const pem = `-----BEGIN PRIVATE KEY----- ${password}`;
  for (const text of [...urls, pem]) {
    const names = Object.values(settingsTable).map(({ name }) => name);
    const environment = Object.fromEntries(names.map((name) => [name, text]));
    const ofSettings = readSettings(environment).mistakes;
    assert.ok(ofSettings.length > 10);
    const argv = flags.map(({ name }) => `-${name}=${text}`);
    const ofFlags = readFlags([...argv, text], environment);
    assert.ok(ofFlags.mistakes.length > 10 && ofFlags.warnings.length > 3);
    const elsewhere = ["-kubernetes.config-file=/a", "-kubernetes.api-url=https://b"];
    const { warnings } = readFlags(elsewhere, { KUBECONFIG: text });
    assert.match(warnings.join(), /^KUBECONFIG is .+ the flags win$/);
    const tracing = readTracing({
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318",
      OTEL_TRACES_SAMPLER: text,
      OTEL_BSP_SCHEDULE_DELAY: text,
    });
    assert.ok(tracing.warnings.length > 0);
    for (const messages of [...ofSettings, ...ofFlags.mistakes, ...ofFlags.warnings, ...warnings, ...tracing.warnings])
      assert.ok(!messages.includes(password), messages);
  }
  const read = readKeyPair({ certFile: pem, keyFile: pem });
  await assert.rejects(
    read,
    (error: Error) => /TLS_CERT_FILE cannot be read/.test(error.message) && !error.message.includes(password),
  );
});

test("a text with a scheme, an account or a query is not shown at all, and of any other text only the beginning", () => {
  fc.assert(
    fc.property(fc.string(), fc.constantFrom("://", "@", "?", "-----BEGIN"), fc.string(), (before, mark, after) => {
      assert.equal(showValue(before + mark + after), unshown);
    }),
  );
  assert.equal(showValue("1.5h"), '"1.5h"');
  assert.equal(showValue("x".repeat(80)), `"${"x".repeat(60)}…"`);
});
