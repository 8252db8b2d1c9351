/** On Knative an event has Sluice correct what another client writes into a webhook configuration: cron does not tick here. */
import assert from "node:assert/strict";
import type { IncomingHttpHeaders } from "node:http";
import { after, before, suite, type TestContext, test } from "node:test";
import type { WebhookConfigurationObject } from "../../functions/shared/kubernetes/cluster.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { isWebhook } from "../support/installed.ts";
import { Kubectl } from "../support/kubectl.ts";
import type { Activator } from "./cluster/activator.ts";
import { install } from "./cluster/installation.ts";
import { type Stage, skipWithoutKnative, startStage, waitForZero } from "./cluster/stage.ts";

type Overlay = "direct" | "broker";

interface Installed {
  readonly namespace: string;
  readonly activator: Activator;
  /** The headers of what has come for the function. */
  readonly came: IncomingHttpHeaders[];
  /** How many webhook configurations the overlay has. */
  readonly configurations: number;
}

type Webhook = NonNullable<WebhookConfigurationObject["webhooks"]>[number];
type Plural = "mutatingwebhookconfigurations" | "validatingwebhookconfigurations";

const plurals: readonly Plural[] = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
const folder = "/apis/admissionregistration.k8s.io/v1";
/** Knative's is a minute. A process writes a review key only after it has known it for 20 s, so that it must not end before. */
const stableWindowMs = 30_000;
const neverTicking = {
  target: { kind: "PingSource" },
  patch: JSON.stringify([{ op: "replace", path: "/spec/schedule", value: "0 0 29 2 *" }]),
};

suite("webhook configurations on Knative's data plane", { skip: await skipWithoutKnative(), concurrency: 2 }, () => {
  let stage: Stage;
  let api: Api;
  const installed = new Map<Overlay, Installed>();

  async function set(overlay: Overlay): Promise<Installed> {
    const namespace = `hooks-${overlay}`;
    const { objects } = await install(stage.cluster, { namespace, overlay, admission: false, patches: [neverTicking] });
    const activator = stage.cluster.service(namespace, "rotate-certificate");
    assert.ok(activator !== undefined);
    const came: IncomingHttpHeaders[] = [];
    activator.interfere((deliver, headers) => {
      came.push(headers);
      return deliver();
    });
    // As they are rendered, after the function has run: events alone say that they are there.
    const configurations = objects.filter(isWebhook);
    const kubectl = await Kubectl.open(stage.controlPlane);
    await kubectl.apply(configurations);
    await kubectl.close();
    return { namespace, activator, came, configurations: configurations.length };
  }

  before(async () => {
    stage = await startStage(stableWindowMs);
    api = await Api.open(stage.controlPlane, { userAgent: "sluice-test-user", connections: 2 });
    const overlays: readonly Overlay[] = ["direct", "broker"];
    await Promise.all(overlays.map(async (overlay) => installed.set(overlay, await set(overlay))));
  });
  after(async () => {
    await api?.close();
    await stage?.close();
  });

  const webhooksOf = async (plural: Plural, selector: string): Promise<readonly Webhook[]> => {
    const query = `labelSelector=${encodeURIComponent(selector)}`;
    const { items } = await api.get<{ items: WebhookConfigurationObject[] }>(`${folder}/${plural}?${query}`);
    return items.flatMap(({ webhooks = [] }) => webhooks);
  };
  const isWritten = ({ clientConfig: { caBundle, service } }: Webhook) =>
    (caBundle ?? "") !== "" && /^\/[0-9a-f]{64}\//.test(service?.path ?? "");
  const waitUntilWritten = async (namespace: string, timeoutMs: number, least: number): Promise<void> => {
    await eventually(`bundles and keys in ${namespace}`, timeoutMs, async () => {
      const selector = `grafana.com/namespace=${namespace}`;
      const webhooks = (await Promise.all(plurals.map((plural) => webhooksOf(plural, selector)))).flat();
      return webhooks.length >= least && webhooks.every(isWritten) ? true : undefined;
    });
  };

  /** Changes the first webhook as a client does that knows nothing of Sluice. Resolves to how long that stays so. */
  async function overwrite(
    path: string,
    change: { readonly op: string; readonly path: string; readonly value?: string },
  ) {
    const startedMs = performance.now();
    const at = `/webhooks/0/clientConfig/${change.path}`;
    await api.request("PATCH", path, [{ ...change, path: at }], "application/json-patch+json");
    await eventually(`${path} corrected`, 45_000, async () => {
      const { webhooks = [] } = await api.get<WebhookConfigurationObject>(path);
      return webhooks.every(isWritten) ? true : undefined;
    });
    return performance.now() - startedMs;
  }

  async function correct(
    context: TestContext,
    { namespace, activator, came, configurations }: Installed,
  ): Promise<void> {
    await waitUntilWritten(namespace, 90_000, configurations);
    await waitForZero(activator, 90_000);
    const { starts } = activator;
    came.length = 0;
    const foreign = { apiVersion: "admissionregistration.k8s.io/v1", kind: "ValidatingWebhookConfiguration" };
    await api.post(`${folder}/validatingwebhookconfigurations`, {
      ...foreign,
      metadata: { name: `not-of-${namespace}` },
    });
    const mutating = `${folder}/mutatingwebhookconfigurations/pod-eviction-${namespace}`;
    const bundleMs = await overwrite(mutating, { op: "remove", path: "caBundle" });
    context.diagnostic(
      `the bundle is back after ${bundleMs.toFixed(0)} ms, the start of the function from zero included`,
    );
    assert.ok(bundleMs < 15_000, `${bundleMs} ms`);
    assert.equal(activator.starts, starts + 1, "it was at zero, and the event started it");
    const validating = `${folder}/validatingwebhookconfigurations/zpdb-validation-${namespace}`;
    const plain = { op: "replace", path: "service/path", value: "/admission/zpdb-validation" };
    const pathMs = await overwrite(validating, plain);
    context.diagnostic(
      `the key is back after ${pathMs.toFixed(0)} ms: a new process waits until it has known it for 20 s`,
    );
    assert.ok(pathMs < 30_000, `${pathMs} ms`);
    const [first] = came;
    assert.deepEqual([first?.["ce-namespace"], first?.["ce-selectedby"]], ["", "grafana.com/namespace"]);
    const types = new Set(came.map((headers) => headers["ce-type"]));
    assert.deepEqual([...types], ["dev.knative.apiserver.ref.update"]);
    const names = new Set(came.map((headers) => headers["ce-name"]));
    for (const name of [`pod-eviction-${namespace}`, `zpdb-validation-${namespace}`]) assert.ok(names.has(name), name);
    assert.ok(!names.has(`not-of-${namespace}`), "without the label an object triggers no function");
    assert.equal(activator.starts, starts + 1);
  }

  for (const overlay of ["direct", "broker"] as const) {
    test(`the bundle and the key that a client overwrites are written again within seconds, with no tick: ${overlay}`, async (context) => {
      const those = installed.get(overlay);
      assert.ok(those !== undefined);
      await correct(context, those);
    });
  }
});
