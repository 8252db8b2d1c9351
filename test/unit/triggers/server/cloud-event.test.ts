import assert from "node:assert/strict";
import { test } from "node:test";
import type { KnownResource } from "../../../../functions/shared/kubernetes/cluster.ts";
import { binaryHeaders, createTestApp, reference, structured, without } from "../../../support/app.ts";

type TestApp = ReturnType<typeof createTestApp>;

function post({ app }: TestApp, headers: Record<string, string>, body: string | undefined, path = "/") {
  return app.request(path, { method: "POST", headers, ...(body === undefined ? {} : { body }) });
}

function postStructured(testApp: TestApp, event: unknown, contentType = "application/cloudevents+json") {
  return post(testApp, { "content-type": contentType }, JSON.stringify(event));
}

/** A refusal is one message in plain text. */
async function assertRefused(response: Response, status: number, message: RegExp): Promise<void> {
  const body = await response.text();
  assert.equal(response.status, status, body);
  assert.match(response.headers.get("content-type") ?? "", /^text\/plain/);
  assert.match(body, message);
  assert.match(body, /^[A-Z][^\n]*\.$/);
}

async function assertTaken(response: Response): Promise<void> {
  assert.equal(await response.text(), "");
  assert.equal(response.status, 204);
}

const bare = without(binaryHeaders, "ce-kind", "ce-name", "ce-namespace", "ce-apiversion");

test("a Reference event in binary mode is answered 204 without a body, and triggers its StatefulSet", async () => {
  for (const path of ["/", "/events"]) {
    const testApp = createTestApp();
    await assertTaken(await post(testApp, binaryHeaders, JSON.stringify(reference), path));
    assert.deepEqual(testApp.triggered, ["statefulsets app/ingester-zone-a"]);
  }
});

test("events of add, update and delete trigger in both modes, and events of any other type do not", async () => {
  for (const mode of ["ref", "resource"]) {
    for (const change of ["add", "update", "delete"]) {
      const testApp = createTestApp();
      await assertTaken(
        await post(testApp, { ...binaryHeaders, "ce-type": `dev.knative.apiserver.${mode}.${change}` }, "{}"),
      );
      assert.equal(testApp.triggered.length, 1);
    }
  }
  for (const type of ["dev.knative.apiserver.ref.patch", "com.example.order", "xdev.knative.apiserver.ref.add"]) {
    const testApp = createTestApp();
    await assertTaken(await post(testApp, { ...binaryHeaders, "ce-type": type }, "{}"));
    assert.deepEqual(testApp.triggered, []);
  }
});

test("without extensions the key comes from a Reference's data, or from a Resource's metadata", async () => {
  const { kind, apiVersion, namespace, name } = reference;
  for (const data of [
    reference,
    { kind, apiVersion, metadata: { namespace, name, uid: "u" }, spec: { replicas: 3 } },
  ]) {
    const testApp = createTestApp();
    await assertTaken(await post(testApp, bare, JSON.stringify(data)));
    await assertTaken(await postStructured(testApp, { ...structured, data }));
    assert.deepEqual(testApp.triggered, ["statefulsets app/ingester-zone-a", "statefulsets app/ingester-zone-a"]);
  }
});

test("structured mode also accepts the extensions, and data in base64", async () => {
  const testApp = createTestApp();
  const { data, ...rest } = structured;
  await assertTaken(await postStructured(testApp, { ...rest, kind: "Pod", namespace: "app", name: "compactor-12" }));
  const base64 = Buffer.from(JSON.stringify(data)).toString("base64");
  await assertTaken(await postStructured(testApp, { ...rest, data_base64: base64 }));
  assert.deepEqual(testApp.triggered, ["pods app/compactor-12", "statefulsets app/ingester-zone-a"]);
});

test("a pod's event is passed on with the pod's own name, and each function decides what it triggers", async () => {
  const testApp = createTestApp();
  for (const name of ["ingester-zone-a-0", "web-7d9f8c6b5-x2x4z"]) {
    const headers = { ...binaryHeaders, "ce-kind": "Pod", "ce-apiversion": "v1", "ce-name": name };
    await assertTaken(await post(testApp, headers, "{}"));
  }
  assert.deepEqual(testApp.triggered, ["pods app/ingester-zone-a-0", "pods app/web-7d9f8c6b5-x2x4z"]);
});

test("an event of a cluster-wide object needs no namespace, and triggers whichever namespaces are served", async () => {
  const testApp = createTestApp({ watches: new Set<KnownResource>(["nodes"]), namespaces: ["app"] });
  const node = { ...without(binaryHeaders, "ce-namespace"), "ce-kind": "Node", "ce-apiversion": "v1" };
  await assertTaken(await post(testApp, { ...node, "ce-name": "worker-1" }, "{}"));
  await assertTaken(await post(testApp, bare, JSON.stringify({ kind: "Node", apiVersion: "v1", name: "worker-2" })));
  assert.deepEqual(testApp.triggered, ["nodes /worker-1", "nodes /worker-2"]);
  await assertRefused(await post(testApp, { ...node, "ce-name": "../x" }, "{}"), 400, /is no name of an object/);
});

/** An event of a webhook configuration, as captured from Knative's adapter: a cluster-wide object has an empty namespace. */
const ofConfiguration = {
  ...binaryHeaders,
  "ce-apiversion": "admissionregistration.k8s.io/v1",
  "ce-kind": "ValidatingWebhookConfiguration",
  "ce-name": "zpdb-validation-app",
  "ce-namespace": "",
  "ce-selectedby": "grafana.com/namespace",
  "ce-subject": "/apis/admissionregistration.k8s.io/v1/namespaces//validatingwebhookconfigurations/zpdb-validation-app",
};

test("an event of a webhook configuration triggers a function that watches it, is otherwise ignored, and needs a name", async () => {
  const watches = new Set<KnownResource>(["validatingwebhookconfigurations"]);
  const body = JSON.stringify({ kind: "ValidatingWebhookConfiguration", namespace: "", name: "zpdb-validation-app" });
  const testApp = createTestApp({ watches, namespaces: ["app"] });
  await assertTaken(await post(testApp, ofConfiguration, body));
  await assertTaken(await post(testApp, without(ofConfiguration, "ce-namespace"), "{}"));
  assert.deepEqual(testApp.triggered, Array(2).fill("validatingwebhookconfigurations /zpdb-validation-app"));
  const foreign = { ...ofConfiguration, "ce-apiversion": "example.com/v1" };
  await assertTaken(await post(testApp, foreign, "{}"));
  assert.equal(testApp.triggered.length, 2, "another API group makes it another type");
  await assertRefused(
    await post(testApp, { ...ofConfiguration, "ce-name": "../x" }, "{}"),
    400,
    /is no name of an object/,
  );
  await assertRefused(await post(testApp, without(ofConfiguration, "ce-name"), "{}"), 400, /does not say the name/);
  const full = createTestApp({ watches, full: true });
  await assertRefused(await post(full, ofConfiguration, body), 503, /Send it again later/);
  const other = createTestApp();
  await assertTaken(await post(other, ofConfiguration, body));
  assert.deepEqual(other.triggered, []);
});

test("an object of a type that no function watches is never taken for a StatefulSet of the same name", async () => {
  const testApp = createTestApp();
  for (const kind of ["PersistentVolumeClaim", "ConfigMap", "Node", "Namespace"]) {
    const headers = { ...binaryHeaders, "ce-kind": kind, "ce-apiversion": "v1" };
    await assertTaken(await post(testApp, headers, "{}"));
    await assertTaken(await post(testApp, without(headers, "ce-namespace"), "{}"));
  }
  assert.deepEqual(testApp.triggered, []);
});

test("an unknown kind, a StatefulSet of another API group and a namespace that is not served cause no request", async () => {
  const testApp = createTestApp({ namespaces: ["app"] });
  for (const changed of [
    { "ce-kind": "Node" },
    { "ce-kind": "Lease" },
    { "ce-apiversion": "apps.kruise.io/v1beta1" },
    { "ce-namespace": "other" },
  ]) {
    await assertTaken(await post(testApp, { ...binaryHeaders, ...changed }, "{}"));
  }
  assert.deepEqual(testApp.triggered, []);
});

test("a kind that triggers no function causes no request", async () => {
  const testApp = createTestApp({ watches: new Set<KnownResource>(["pods"]) });
  await assertTaken(await post(testApp, binaryHeaders, "{}"));
  assert.deepEqual(testApp.triggered, []);
});

test("a name that Kubernetes would not accept is refused before it can become part of a URL", async () => {
  const testApp = createTestApp();
  for (const changed of [
    { "ce-name": "../../secrets/x" },
    { "ce-name": "A" },
    { "ce-name": "a".repeat(254) },
    { "ce-name": "a..b" },
    { "ce-namespace": "kube.system" },
    { "ce-namespace": "a".repeat(64) },
    { "ce-namespace": "-a" },
  ]) {
    await assertRefused(await post(testApp, { ...binaryHeaders, ...changed }, "{}"), 400, /is no name of/);
  }
  assert.deepEqual(testApp.triggered, []);
});

test("extensions and data that are not strings are refused, and so is an object without a name", async () => {
  const testApp = createTestApp();
  for (const changed of [{ name: 5 }, { kind: true }, { namespace: ["app"] }, { apiversion: 1 }]) {
    await assertRefused(
      await postStructured(testApp, { ...structured, ...changed }),
      400,
      /is not a string|invalid payload/,
    );
  }
  await assertRefused(
    await post(testApp, bare, JSON.stringify({ ...reference, name: { a: 1 } })),
    400,
    /name is not a string/,
  );
  for (const data of [{}, [], null, "text", 5]) {
    await assertRefused(await post(testApp, bare, JSON.stringify(data)), 400, /does not say the kind/);
  }
  await assertRefused(await post(testApp, bare, JSON.stringify({ kind: "Pod" })), 400, /does not say the namespace/);
  assert.deepEqual(testApp.triggered, []);
});

test("a content type is compared without its parameters and without regard to case", async () => {
  const testApp = createTestApp();
  for (const type of [
    "application/json; charset=utf-8",
    "Application/JSON;charset=UTF-8",
    "application/vnd.k8s+json",
  ]) {
    await assertTaken(await post(testApp, { ...bare, "content-type": type }, JSON.stringify(reference)));
  }
  for (const type of ["application/cloudevents+json; charset=utf-8", "Application/CloudEvents+JSON"]) {
    await assertTaken(await postStructured(testApp, structured, type));
  }
  assert.equal(testApp.triggered.length, 5);
});

test("malformed JSON is answered 400 in both modes, and so is an event that is no object", async () => {
  const testApp = createTestApp();
  for (const body of ["{", "garbage", '{"a":1}}']) {
    await assertRefused(await post(testApp, binaryHeaders, body), 400, /not JSON/);
    await assertRefused(await post(testApp, { "content-type": "application/cloudevents+json" }, body), 400, /not JSON/);
  }
  for (const event of [null, 5, "text", [], [structured]]) {
    await assertRefused(await postStructured(testApp, event), 400, /has no specversion/);
  }
  await assertRefused(
    await post(testApp, { "content-type": "application/cloudevents+json" }, undefined),
    400,
    /specversion/,
  );
  assert.deepEqual(testApp.triggered, []);
});

test("JSON may begin with white space", async () => {
  const testApp = createTestApp();
  await assertTaken(await post(testApp, bare, `\n  ${JSON.stringify(reference)}`));
  await assertTaken(
    await post(testApp, { "content-type": "application/cloudevents+json" }, ` ${JSON.stringify(structured)}`),
  );
  assert.equal(testApp.triggered.length, 2);
});

test("an event without a required attribute is answered 400, although the SDK would add the attribute", async () => {
  const testApp = createTestApp();
  for (const name of ["specversion", "id", "source", "type"]) {
    const missing = new RegExp(`has no ${name}`);
    await assertRefused(await post(testApp, without(binaryHeaders, `ce-${name}`), "{}"), 400, missing);
    await assertRefused(await postStructured(testApp, { ...structured, [name]: undefined }), 400, missing);
    await assertRefused(await postStructured(testApp, { ...structured, [name]: "" }), 400, missing);
    await assertRefused(await postStructured(testApp, { ...structured, [name]: 1 }), 400, /is not a string/);
  }
  assert.deepEqual(testApp.triggered, []);
});

test("a specversion other than 1.0 is answered 400, although the SDK's validate() only returns false for it", async () => {
  const testApp = createTestApp();
  for (const version of ["0.3", "2.0", "1"]) {
    await assertRefused(await post(testApp, { ...binaryHeaders, "ce-specversion": version }, "{}"), 400, /specversion/);
    await assertRefused(await postStructured(testApp, { ...structured, specversion: version }), 400, /specversion/);
  }
});

test("an event that the specification forbids is answered 400", async () => {
  const testApp = createTestApp();
  await assertRefused(await postStructured(testApp, { ...structured, "Not-A-Name": "x" }), 400, /attribute name/);
  await assertRefused(await postStructured(testApp, { ...structured, schemaurl: "http://x" }), 400, /schemaurl/);
});

test("a request that is no CloudEvent is answered 400, and one of a content type without events 415", async () => {
  const testApp = createTestApp();
  await assertRefused(await post(testApp, { "content-type": "application/json" }, "{}"), 400, /neither ce- headers/);
  for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/cloudevents+avro"]) {
    await assertRefused(
      await post(testApp, { "content-type": type }, "a=b"),
      415,
      /^Send application\/cloudevents\+json/,
    );
  }
  await assertRefused(await post(testApp, {}, undefined), 415, /no content type/);
});

test("a batch of events is answered 400", async () => {
  const testApp = createTestApp();
  const batch = await postStructured(testApp, [structured], "application/cloudevents-batch+json");
  await assertRefused(batch, 400, /one event at a time/);
});

test("a tick of any content type starts a sweep", async () => {
  const testApp = createTestApp();
  const headers = {
    ...bare,
    "ce-type": "dev.knative.sources.ping",
    "ce-source": "/apis/v1/namespaces/app/pingsources/sweep",
  };
  await assertTaken(await post(testApp, headers, '{"op":"resync"}'));
  await assertTaken(await post(testApp, { ...headers, "content-type": "text/plain" }, "tick"));
  await assertTaken(await postStructured(testApp, { ...structured, type: "dev.knative.sources.ping", data: "tick" }));
  assert.deepEqual(testApp.triggered, ["sweep", "sweep", "sweep"]);
});

test("a tick of a function's own schedule, which its source identifies, starts no sweep", async () => {
  const testApp = createTestApp();
  for (const name of ["release-prepared-due", "release-prepared", "due"]) {
    const source = `/apis/v1/namespaces/app/pingsources/${name}`;
    await assertTaken(
      await post(testApp, { ...bare, "ce-type": "dev.knative.sources.ping", "ce-source": source }, "{}"),
    );
  }
  assert.deepEqual(testApp.triggered, ["due", "sweep", "sweep"]);
});

test("a body beyond the limit is answered 413, with and without an announced length", async () => {
  const testApp = createTestApp({ bodyLimitBytes: 1_024 });
  const large = JSON.stringify({ ...reference, filler: "x".repeat(1_024) });
  await assertRefused(
    await post(testApp, { ...binaryHeaders, "content-length": String(large.length) }, large),
    413,
    /1024 bytes/,
  );
  await assertRefused(await post(testApp, binaryHeaders, large), 413, /1024 bytes/);
  assert.deepEqual(testApp.triggered, []);
});

test("while the server takes no events, or the queue is full, an event is answered 503 with Retry-After", async () => {
  for (const testApp of [createTestApp({ notReady: () => "this process is ending" }), createTestApp({ full: true })]) {
    const headers = { ...binaryHeaders, "ce-type": "dev.knative.sources.ping" };
    for (const response of [await post(testApp, binaryHeaders, "{}"), await post(testApp, headers, "{}")]) {
      assert.match(response.headers.get("retry-after") ?? "", /^\d+$/);
      await assertRefused(response, 503, /^Send it again later/);
    }
  }
});

test("an unexpected error is answered 503 with Retry-After, and is logged", async () => {
  const testApp = createTestApp({
    notReady: () => {
      throw new Error("boom");
    },
  });
  const response = await post(testApp, binaryHeaders, "{}");
  assert.equal(response.headers.get("retry-after"), "1");
  await assertRefused(response, 503, /later/);
  assert.ok(testApp.lines.some(({ level, msg }) => level === "error" && String(msg).includes("boom")));
});

test("events are counted by their outcome", async () => {
  const testApp = createTestApp();
  await post(testApp, binaryHeaders, "{}");
  await post(testApp, { ...binaryHeaders, "ce-kind": "Node" }, "{}");
  await post(testApp, binaryHeaders, "{");
  const text = await (await testApp.app.request("/metrics")).text();
  for (const result of ["queued", "ignored", "malformed"]) {
    assert.match(text, new RegExp(`^sluice_events_total\\{result="${result}"\\} 1$`, "m"));
  }
});
