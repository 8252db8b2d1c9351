import assert from "node:assert/strict";
import { test } from "node:test";
import { ClusterError } from "../../../../functions/shared/kubernetes/cluster.ts";
import { type FindingsOptions, lookForUnsupported } from "../../../../triggers/settings/unsupported.ts";
import { VirtualTimeline } from "../../../world/timeline.ts";
import { createWorld } from "../../../world/world.ts";
import { createWorldCluster } from "../../../world/world-cluster.ts";

type Configurations = "mutatingwebhookconfigurations" | "validatingwebhookconfigurations";

interface Entry {
  readonly failurePolicy?: string;
  readonly clientConfig: object;
}

function failure(code: number, verb = "list", resource = "statefulsets"): ClusterError {
  const message = `statefulsets is forbidden: User "sluice" cannot ${verb} resource "${resource}"`;
  return new ClusterError({ code, reason: "Failed", message, verb, resource });
}

/** A world, and one look at it. */
function scene(options: Partial<FindingsOptions> = {}, beforeList: (resource: string) => void = () => undefined) {
  const timeline = new VirtualTimeline();
  const world = createWorld({ timeline });
  const inner = createWorldCluster(world);
  const cluster: FindingsOptions["cluster"] = {
    list: async (...given) => {
      beforeList(given[0]);
      return inner.list(...given);
    },
    sleep: (...given) => inner.sleep(...given),
  };
  const statefulSet = (namespace: string, name: string, labels: object, annotations: object = {}): void => {
    world.store.create("statefulsets", namespace, { metadata: { name, namespace, labels, annotations }, spec: {} });
  };
  const configuration = (resource: Configurations, name: string, labels: object, ...entries: Entry[]): void => {
    const webhooks = entries.map((entry, index) => ({ name: `${index}.${name}.example.com`, ...entry }));
    world.store.create(resource, "", { metadata: { name, labels }, webhooks });
  };
  const stopping = new AbortController();
  const look = async () => {
    const looking = lookForUnsupported(
      {
        cluster,
        namespaces: ["mimir"],
        statefulSets: true,
        dnsName: "rollout-operator.mimir.svc",
        ...options,
      },
      stopping.signal,
    );
    let isOver = false;
    void looking.then(() => {
      isOver = true;
    });
    await timeline.run(() => isOver);
    return looking;
  };
  return { world, timeline, inner, statefulSet, configuration, stopping, look };
}

const service = (name: string, path: string, namespace = "mimir") => ({
  clientConfig: { service: { name, namespace, path } },
});
const ours = (path: string) => service("rollout-operator", path);
const labels = { "grafana.com/namespace": "mimir", "grafana.com/inject-rollout-operator-ca": "true" };

test("nothing is found in a namespace that rollout-operator has only rolled and kept budgets in", async () => {
  const { statefulSet, configuration, look } = scene();
  statefulSet(
    "mimir",
    "a",
    { "rollout-group": "a" },
    { "rollout-max-unavailable": "2", "grafana.com/rollout-paused": "true" },
  );
  configuration("validatingwebhookconfigurations", "pod-eviction-mimir", labels, ours("/admission/pod-eviction"));
  configuration("mutatingwebhookconfigurations", "pod-eviction-2", labels, ours("/pods/eviction"));
  assert.deepEqual(await look(), { found: [], unseen: [] });
});

test("each StatefulSet that is scaled, or prepared, or kept, by rollout-operator is named, with what it uses", async () => {
  const { statefulSet, look } = scene();
  const mirror = { "grafana.com/rollout-mirror-replicas-from-resource-name": "ingester" };
  statefulSet("mimir", "a", {}, { ...mirror, "grafana.com/rollout-delayed-downscale": "1h" });
  statefulSet(
    "mimir",
    "b",
    { "grafana.com/prepare-downscale": "true" },
    { "grafana.com/rollout-downscale-leader": "a" },
  );
  statefulSet("mimir", "c", { "grafana.com/prepare-downscale": "true" });
  statefulSet("mimir", "kept", { "grafana.com/no-downscale": "true" });
  statefulSet("loki", "d", { "grafana.com/prepare-downscale": "true" });
  const uses = "uses what Sluice does not do yet:";
  const leader = "grafana.com/rollout-downscale-leader (replicas follow another StatefulSet)";
  const mirrored = "grafana.com/rollout-mirror-replicas-from-resource-name (replicas follow another resource)";
  const delayed = "grafana.com/rollout-delayed-downscale (pods are told some time before a downscale)";
  const told = `${uses} grafana.com/prepare-downscale (pods are told of a downscale)`;
  const found = [
    `StatefulSet mimir/a ${uses} ${mirrored}`,
    `StatefulSet mimir/b ${uses} ${leader}, grafana.com/prepare-downscale (pods are told of a downscale)`,
    `StatefulSet mimir/c ${told}`,
  ];
  assert.deepEqual((await look())?.found, found);
  const everywhere = scene({ namespaces: undefined });
  everywhere.statefulSet("loki", "d", { "grafana.com/prepare-downscale": "true" });
  assert.deepEqual((await everywhere.look())?.found, [`StatefulSet loki/d ${told}`]);
});

test("values that rollout-operator does not act on are nothing", async () => {
  const { statefulSet, look } = scene();
  const annotations = {
    "grafana.com/rollout-downscale-leader": "",
    "grafana.com/rollout-mirror-replicas-from-resource-name": "",
    "grafana.com/rollout-delayed-downscale": "0s",
  };
  statefulSet("mimir", "a", { "grafana.com/prepare-downscale": "false" }, annotations);
  assert.deepEqual(await look(), { found: [], unseen: [] });
});

test("webhook configurations of ours, by label or by Service, that ask where nobody answers are named; others are not", async () => {
  const { configuration, look } = scene();
  const [mutating, validating] = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"] as const;
  configuration(mutating, "prepare-downscale-mimir", labels, ours("/admission/prepare-downscale"));
  configuration(validating, "by-service", {}, ours("/admission/prepare-downscale"), ours("/pods/eviction"));
  configuration(validating, "no-downscale-mimir", labels, ours("/admission/no-downscale"));
  const url = { clientConfig: { url: "https://localhost:1/admission/prepare-downscale?x=1" }, failurePolicy: "Ignore" };
  configuration(validating, "by-address", { "grafana.com/namespace": "mimir" }, url);
  configuration(validating, "of-another", { "grafana.com/namespace": "loki" }, url);
  const elsewhere = service("rollout-operator", "/admission/prepare-downscale", "loki");
  configuration(validating, "elsewhere", {}, elsewhere, service("istiod", "/admission/prepare-downscale"));
  assert.deepEqual((await look())?.found, [
    "MutatingWebhookConfiguration prepare-downscale-mimir asks at /admission/prepare-downscale, where nobody answers: what it reviews can no longer be changed",
    "ValidatingWebhookConfiguration by-address asks at /admission/prepare-downscale, where nobody answers: what it reviews goes through without a review",
    "ValidatingWebhookConfiguration by-service asks at /admission/prepare-downscale, where nobody answers: what it reviews can no longer be changed",
  ]);
});

test("a right to look that is missing is said, and the rest is looked at", async () => {
  const { configuration, statefulSet, look } = scene({}, (resource) => {
    if (resource === "statefulsets") throw failure(403);
  });
  statefulSet("mimir", "c", { "grafana.com/prepare-downscale": "true" });
  configuration(
    "mutatingwebhookconfigurations",
    "prepare-downscale-mimir",
    labels,
    ours("/admission/prepare-downscale"),
  );
  const { found = [], unseen = [] } = (await look()) ?? {};
  assert.equal(found.length, 1);
  assert.equal(unseen.length, 1);
  assert.match(unseen[0] ?? "", /^Sluice lacks the right to list statefulsets: /);
});

test("a process that rolls nothing asks for no StatefulSets", async () => {
  const { look } = scene({ statefulSets: false }, (resource) => assert.notEqual(resource, "statefulsets"));
  assert.deepEqual(await look(), { found: [], unseen: [] });
});

test("it looks once the API server answers, however long that takes, unless the process ends before", async () => {
  let lists = 0;
  const late = scene({}, () => {
    if (++lists <= 10) throw failure(lists % 2 === 0 ? 0 : 503);
  });
  late.statefulSet("mimir", "c", { "grafana.com/prepare-downscale": "true" });
  assert.equal((await late.look())?.found.length, 1);
  const never = scene({}, () => {
    throw failure(0);
  });
  never.timeline.after(60_000, () => never.stopping.abort());
  assert.equal(await never.look(), undefined);
});
