import assert from "node:assert/strict";
import { test } from "node:test";
import { ClusterError, type WebhookConfigurationObject } from "../../../../functions/shared/kubernetes/cluster.ts";
import { wrapCluster } from "../../../../functions/shared/kubernetes/wrap-cluster.ts";
import { followWebhookConfigurations } from "../../../../triggers/workqueue/webhook-configurations.ts";
import { VirtualTimeline } from "../../../fake-cluster/timeline.ts";
import { createWorld } from "../../../fake-cluster/world.ts";
import { createWorldCluster } from "../../../fake-cluster/world-cluster.ts";
import { createTestApp } from "../../../support/app.ts";

type Resource = "mutatingwebhookconfigurations" | "validatingwebhookconfigurations";

function follow(options: { beforeList?: () => void; beforeWatch?: (resource: string) => void } = {}) {
  const timeline = new VirtualTimeline();
  const world = createWorld({ timeline });
  const { reporting, lines } = createTestApp();
  const inner = createWorldCluster(world);
  const cluster = wrapCluster(inner, {
    list: async (...given) => {
      options.beforeList?.();
      return inner.list(...given);
    },
    watch: (...given) => {
      options.beforeWatch?.(given[0]);
      return inner.watch(...given);
    },
  });
  const seen: { changes: number; names: readonly string[] | undefined } = { changes: 0, names: undefined };
  const onChange = () => void seen.changes++;
  const onSeen = (all: readonly WebhookConfigurationObject[] | undefined) => {
    seen.names = all?.map(({ metadata }) => metadata.name).sort();
  };
  const stopping = new AbortController();
  const followed = { cluster, namespace: "mimir", reporting, onChange, onSeen };
  const following = followWebhookConfigurations(followed, stopping.signal);
  const startMs = timeline.nowMs();
  const goTo = async (seconds: number): Promise<void> => {
    let arrived = false;
    timeline.after(startMs + seconds * 1000 - timeline.nowMs(), () => {
      arrived = true;
    });
    await timeline.run(() => arrived);
  };
  const add = (resource: Resource, name: string, failurePolicy: string | undefined, namespace = "mimir"): void => {
    const webhook = {
      name: `${name}.grafana.com`,
      clientConfig: { url: "https://localhost:1/x" },
      admissionReviewVersions: ["v1"],
      sideEffects: "None",
      ...(failurePolicy === undefined ? {} : { failurePolicy }),
    };
    world.store.create(resource, "", {
      metadata: { name, labels: { "grafana.com/namespace": namespace } },
      webhooks: [webhook],
    });
  };
  const policies = async (): Promise<string[]> => {
    const text = await reporting.metrics.registry.getSingleMetricAsString("kube_validating_webhook_failure_policy");
    return text
      .split("\n")
      .filter((line) => !line.startsWith("#"))
      .sort();
  };
  const stop = async (): Promise<void> => {
    stopping.abort();
    await following;
  };
  return { world, lines, seen, goTo, add, policies, stop };
}

const series = (type: string, webhook: string, policy: string, value: number): string =>
  `kube_validating_webhook_failure_policy{type="${type}",webhook="${webhook}.grafana.com",policy="${policy}"} ${value}`;

test("the metric has the failure policies of Sluice's configurations, not those of others, and loses deleted ones", async () => {
  const { world, seen, goTo, add, policies, stop } = follow();
  add("validatingwebhookconfigurations", "zpdb", "Ignore");
  add("validatingwebhookconfigurations", "elsewhere", "Ignore", "loki");
  await goTo(1);
  assert.deepEqual(await policies(), [
    series("ValidatingWebhook", "zpdb", "Fail", 0),
    series("ValidatingWebhook", "zpdb", "Ignore", 1),
  ]);
  const listed = seen.changes;
  add("mutatingwebhookconfigurations", "eviction", undefined);
  world.store.delete("validatingwebhookconfigurations", { namespace: "", name: "zpdb" });
  await goTo(2);
  assert.deepEqual(await policies(), [
    series("MutatingWebhook", "eviction", "Fail", 1),
    series("MutatingWebhook", "eviction", "Ignore", 0),
  ]);
  assert.equal(seen.changes, listed + 2, "each change triggers the listeners");
  await stop();
});

test("a missing right is reported once, and the list is tried again and again", async () => {
  const message = 'User "x" cannot list resource "…" in API group "admissionregistration.k8s.io" at the cluster scope';
  let lists = 0;
  const { lines, goTo, stop } = follow({
    beforeList() {
      lists++;
      throw new ClusterError({ code: 403, reason: "Forbidden", message, verb: "list", resource: "configurations" });
    },
  });
  await goTo(65);
  assert.equal(lists, 6, "every thirty seconds, for both types");
  const messages = lines.map(({ msg }) => String(msg)).filter((msg) => msg.includes("Sluice lacks the right to list"));
  assert.equal(messages.length, 2);
  await stop();
});

test("all configurations are reported, including those of others, which trigger no function", async () => {
  const { world, seen, goTo, add, stop } = follow();
  add("validatingwebhookconfigurations", "zpdb", "Fail");
  await goTo(1);
  const listed = seen.changes;
  add("mutatingwebhookconfigurations", "elsewhere", "Fail", "loki");
  await goTo(2);
  assert.deepEqual([seen.names, seen.changes], [["elsewhere", "zpdb"], listed]);
  world.store.patch("validatingwebhookconfigurations", { namespace: "", name: "zpdb" }, { metadata: { labels: null } });
  await goTo(3);
  assert.deepEqual([seen.names, seen.changes], [["elsewhere", "zpdb"], listed + 1], "it belonged to Sluice until now");
  world.store.delete("validatingwebhookconfigurations", { namespace: "", name: "zpdb" });
  await goTo(4);
  assert.deepEqual([seen.names, seen.changes], [["elsewhere"], listed + 1]);
  await stop();
});

test("a watch that ends once goes on from where it was, and the configurations stay known", async () => {
  let breaks = 0;
  const { seen, goTo, add, stop } = follow({
    beforeWatch(resource) {
      if (resource === "mutatingwebhookconfigurations" && breaks++ === 0) throw new Error("ended");
    },
  });
  add("validatingwebhookconfigurations", "zpdb", "Fail");
  await goTo(3);
  assert.deepEqual([breaks, seen.names], [2, ["zpdb"]]);
  await stop();
});

test("when a watch breaks again and again, the configurations become unknown, until it works again", async () => {
  let isBroken = false;
  const { seen, goTo, add, stop } = follow({
    beforeWatch(resource) {
      if (isBroken && resource === "mutatingwebhookconfigurations") throw new Error("broken");
    },
  });
  isBroken = true;
  add("validatingwebhookconfigurations", "zpdb", "Fail");
  await goTo(1);
  assert.equal(seen.names, undefined);
  isBroken = false;
  add("mutatingwebhookconfigurations", "eviction", "Fail");
  await goTo(30);
  assert.deepEqual(seen.names, ["eviction", "zpdb"]);
  await stop();
});
