/** The swap by Helm, each command as the document has it, with a release called `prod` that has the operator as its subchart. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { usualSecretName } from "../../functions/shared/certificates/settings.ts";
import { type Api, eventually } from "../controlplane/api.ts";
import { freePort } from "../controlplane/ports.ts";
import { TcpProxy } from "../support/drain-proxy.ts";
import { chartOfThisMachine, type Helm, skipWithoutHelm } from "../support/helm.ts";
import { Ingesters } from "../support/ingester.ts";
import { askedBy, kubeconfigOf } from "../support/installed.ts";
import { Kubectl } from "../support/kubectl.ts";
import { Scene, skipWithoutControlPlane } from "../support/scene.ts";
import type { Server } from "../support/server.ts";
import { type Configuration, deploymentOf, installed } from "./deployed.ts";
import { chartWithOperator, operatorsWebhooks } from "./operator-chart.ts";
import { Replicas } from "./replicas.ts";
import { type ChartStage, startChartStage } from "./stage.ts";

const root = join(import.meta.dirname, "../..");
const migration = readFileSync(join(root, "knative/from-rollout-operator.md"), "utf8");
const betweenZonesMs = 12_000;

const operators = "app.kubernetes.io/name=rollout-operator";
const longAgo = "grafana.com/last-downscale=2020-01-01T00:00:00Z";

/** Labels and annotations of StatefulSets whose pods answer at a port before they leave. */
function prepared(port: number) {
  return {
    labels: {
      asked: "yes",
      "grafana.com/prepare-downscale": "true",
      "grafana.com/min-time-between-zones-downscale": `${betweenZonesMs / 1000}s`,
    },
    annotations: {
      "grafana.com/prepare-downscale-http-path": "ingester/prepare-shutdown",
      "grafana.com/prepare-downscale-http-port": String(port),
    },
  };
}

/** What the pods of the operator's Deployment run. */
interface Operator {
  readonly serviceAccountName: string;
  readonly containers: readonly {
    readonly image: string;
    readonly args: readonly string[];
    readonly env: readonly { readonly name: string; readonly value: string }[];
  }[];
}

async function operatorIn({ api, group: { namespace } }: Scene): Promise<Operator> {
  const path = `/apis/apps/v1/namespaces/${namespace}/deployments/prod-rollout-operator`;
  const { spec } = await api.get<{ spec: { template: { spec: Operator } } }>(path);
  return spec.template.spec;
}

/** What is scaled, and which StatefulSets follow, in the fixture of a chart. */
const charts = {
  "mimir-classic": {
    scaled: "replicatemplates.rollout-operator.grafana.com/ingester",
    followers: ["ingester-zone-a", "ingester-zone-b", "ingester-zone-c"],
  },
  loki: { scaled: "statefulset/ingester-zone-a", followers: ["ingester-zone-b", "ingester-zone-c"] },
  tempo: {
    scaled: "replicatemplates.rollout-operator.grafana.com/live-store",
    followers: ["live-store-zone-a", "live-store-zone-b"],
  },
} as const;

/** Resolves when a webhook configuration has an authority that Sluice has made. */
function trusted(api: Api, path: string): Promise<true> {
  return eventually("an authority of Sluice trusted", 30_000, async () => {
    const { webhooks } = await api.get<Configuration>(path);
    return (webhooks[0]?.clientConfig.caBundle ?? "YQ==") === "YQ==" ? undefined : true;
  });
}

const pathOf = (called: string, namespace: string, kind: string) =>
  `/apis/admissionregistration.k8s.io/v1/${kind.toLowerCase()}webhookconfigurations/${called}-${namespace}`;

suite("the swap by Helm", {
  skip: (await skipWithoutControlPlane()) || (await skipWithoutHelm()),
  // They wait more than they compute.
  concurrency: 5,
}, () => {
  let stage: ChartStage;
  let kubectl: Kubectl;
  let parent: Awaited<ReturnType<typeof chartWithOperator>>;

  before(async () => {
    stage = await startChartStage();
    kubectl = await Kubectl.open(stage.controlPlane);
    parent = await chartWithOperator();
  });

  after(async () => {
    await parent?.remove();
    await kubectl?.close();
    await stage?.stop();
  });

  /** The commands of a chapter of the document that begin with this word. */
  async function commandsOf(heading: string, program: string): Promise<string[]> {
    const lines = await kubectl.commandsOf("from-rollout-operator.md", heading);
    return lines.filter((line) => new RegExp(`^${program} `).test(line));
  }

  /** Types a command of the document, with this machine's folders for its charts. */
  async function type(line: string, helm: Helm, namespace: string, folder: string, port?: number): Promise<string> {
    if (line.startsWith("kubectl")) return kubectl.shell(line.replace("mimir", namespace));
    // A user without values of their own has an empty file.
    const values = port === undefined ? {} : { rollout_operator: { enabled: true, webhooks: { port, asked: "yes" } } };
    const mine = await kubectl.file(`${namespace}-values.yaml`, JSON.stringify(values));
    const [command = ""] = line.replace("--namespace mimir", `--namespace ${namespace}`).split(" > ");
    const words = command.replaceAll("'", "").split(" ").slice(1);
    const known: Readonly<Record<string, string>> = {
      "sluice/knative/chart": folder,
      "grafana/mimir-distributed": parent.folder,
      "grafana/loki": parent.folder,
      "grafana/tempo": parent.folder,
      "YOUR-VALUES.yaml": mine,
      "image.repository=YOUR-REGISTRY/sluice": "image.repository=registry.example/sluice",
    };
    const typed = words.map((word) => known[word] ?? word.replace(/^sluice\/knative/, join(root, "knative")));
    return helm.run(...typed);
  }

  /** Plays in a scene whose pods answer before they leave. */
  async function playPrepared(namespace: string, work: (scene: Scene, ingesters: Ingesters) => Promise<void>) {
    const ingesters = await Ingesters.open();
    const following = new AbortController();
    const scene = await Scene.set(stage.controlPlane, namespace, { zones: 2, pods: 2, ...prepared(ingesters.port) });
    const followed = ingesters.followPods(scene.api, namespace, following.signal);
    try {
      await work(scene, ingesters);
    } catch (error) {
      console.error(await scene.describe());
      throw error;
    } finally {
      following.abort();
      await followed.catch(() => undefined);
      await scene.close();
      await ingesters.close();
    }
  }

  /** Does work with a folder for kustomizations that no other test writes to. */
  async function apart<T>(work: (own: Kubectl) => Promise<T>): Promise<T> {
    const own = await Kubectl.open(stage.controlPlane);
    return work(own).finally(() => own.close());
  }

  /** Applies what a chart has in a namespace, and scales what its zones mirror. Resolves when all of them follow. */
  async function mirror(scene: Scene, chart: keyof typeof charts): Promise<void> {
    const { scaled, followers } = charts[chart];
    const { namespace } = scene.group;
    await kubectl.run("-n", namespace, "apply", "-f", join(root, `test/fixtures/charts/${chart}.yaml`));
    await kubectl.run("-n", namespace, "scale", scaled, "--replicas=4");
    for (const name of followers)
      await eventually(`${name} follows`, 20_000, async () => {
        const { spec } = await scene.api.get<{ spec: { replicas: number } }>(scene.statefulSetPath(name));
        return spec.replicas === 4 ? true : undefined;
      });
  }

  const scale = async (namespace: string, name: string, replicas: number): Promise<string> => {
    const given = ["-n", namespace, "patch", "statefulset", name, "--patch", JSON.stringify({ spec: { replicas } })];
    return kubectl.run(...given).catch(({ stderr }: { stderr: string }) => stderr);
  };

  /** A zone gets smaller, and the next one waits for the time between zones, and no longer. */
  async function shrinkInTurn({ group: { namespace, statefulSets } }: Scene, ingesters: Ingesters): Promise<void> {
    const [one = "", other = ""] = statefulSets;
    await eventually("a prepared downscale allowed", 30_000, async () =>
      (await scale(namespace, one, 1)).includes("patched") ? true : undefined,
    );
    const shrunkMs = Date.now();
    assert.deepEqual(
      ingesters.calls.filter(({ method }) => method === "POST").map(({ pod }) => pod),
      [`${one}-1`],
    );
    const refusals: string[] = [];
    await eventually("the next zone allowed", betweenZonesMs + 15_000, async () => {
      const output = await scale(namespace, other, 1);
      if (output.includes("patched")) return true;
      refusals.push(output);
      return undefined;
    });
    const waitedMs = Date.now() - shrunkMs;
    assert.ok(waitedMs > betweenZonesMs - 2_000, `it waited ${waitedMs} ms`);
    assert.match(refusals.at(-1) ?? "", /the time between two zones is 12 s: try again after/);
  }

  /** Resolves when both commands that *Go back* has for it show the same times, for all zones. */
  async function timesWritten({ group: { namespace, statefulSets } }: Scene): Promise<void> {
    const [ledgers = "", annotations = ""] = await commandsOf("1\\. Have the times written", "kubectl -n mimir get");
    // A minute after the last change of each StatefulSet.
    await eventually("the times of the ledger in the annotations", 100_000, async () => {
      const shown = await kubectl.shell(ledgers.replace("mimir", namespace));
      const times: Readonly<Record<string, number>> = JSON.parse(/\{.*\}/.exec(shown)?.[0] ?? "{}");
      const written = await kubectl.shell(annotations.replace("mimir", namespace));
      const isWritten = (zone: string) => {
        const [, time = ""] = new RegExp(`^${zone} +(.*)$`, "m").exec(written) ?? [];
        return Date.parse(time) === Math.ceil((times[zone] ?? 0) / 1_000) * 1_000;
      };
      if (!statefulSets.every(isWritten)) throw new Error(`${shown}${written}`);
      return true;
    });
  }

  for (const major of ["4", "3"])
    test(`Helm ${major}: Sluice takes the place of Mimir's subchart, leaves the operator's certificate alone before, and hands the times back`, async () => {
      const helm = stage.helmOf(major);
      const namespace = `mimir-${major}`;
      const service = await TcpProxy.start();
      const { folder, remove } = await chartOfThisMachine(service.port);
      const typed = (line: string) => type(line, helm, namespace, folder);
      const typeAll = async (heading: string) => {
        const shown = [];
        for (const line of await commandsOf(heading, "(?:helm|kubectl)")) shown.push(await typed(line));
        return shown.join("");
      };
      const [write = "", written = "", uninstall = "", back = ""] = await commandsOf(
        "Go back to Mimir's subchart",
        "(?:helm|kubectl)",
      );
      await playPrepared(namespace, async (scene, ingesters) => {
        const { api } = scene;
        await helm.run("install", "prod", parent.folder, "--namespace", namespace);
        await kubectl.run("-n", namespace, "rollout", "status", "deployment", "-l", operators);
        const [find = ""] = await commandsOf("3\\. Stop the operator", "OPERATOR=\\$\\(kubectl");
        const found = await kubectl.shell(`${find.replace("mimir", namespace)}; echo "$OPERATOR"`);
        assert.equal(found, "prod-rollout-operator\n");
        const bundle = [{ op: "add", path: "/webhooks/0/clientConfig/caBundle", value: "YQ==" }];
        const paths = Object.entries(operatorsWebhooks).map(([called, { kind }]) => pathOf(called, namespace, kind));
        for (const path of paths) await api.request("PATCH", path, bundle, "application/json-patch+json");

        const unguarded = /No webhook of this release guards evictions/;
        assert.match(await typeAll("1\\. Install Sluice beside the operator"), unguarded);
        const { account, settings } = await installed(api, namespace);
        const kubeconfig = await kubeconfigOf(stage.controlPlane, api, namespace, account);
        const own = { NODE_OPTIONS: ingesters.nodeOptions };
        const replicas = await Replicas.start(scene, kubeconfig, service, { ...settings, ...own });
        await eventually("the certificate made", 30_000, async () => {
          const secret = `/api/v1/namespaces/${namespace}/secrets/${usualSecretName}`;
          return (await api.get<{ data?: { cert?: string } }>(secret)).data?.cert ? true : undefined;
        });
        await scene.waitForEvent("StandingBy");
        const [command = ""] = await commandsOf("6\\. Say when zones were made smaller", "kubectl");
        await typed(command);
        for (const path of paths) {
          const { webhooks } = await api.get<Configuration>(path);
          assert.equal(webhooks[0]?.clientConfig.caBundle, "YQ==", path);
        }

        await typeAll("3\\. Switch the operator off");
        // A user who breaks off here goes back, and later begins this step anew.
        await typed(back);
        for (const path of paths) await api.get(path);
        await typeAll("3\\. Switch the operator off");
        const left = await helm.run("get", "manifest", "prod", "--namespace", namespace);
        assert.equal(left.trim(), "");
        for (const path of paths) await assert.rejects(api.get(path), /404|not found/);

        assert.doesNotMatch(await typeAll("4\\. Guard evictions again"), unguarded);
        assert.equal((await deploymentOf(api, namespace)).spec.replicas, 2);
        await replicas.replace({ ...(await installed(api, namespace)).settings, ...own });
        await trusted(api, pathOf("prepare-downscale", namespace, "Mutating"));
        await assert.rejects(typed(back), /invalid ownership metadata/, "the operator beside our webhooks");
        await mirror(scene, "mimir-classic");
        await shrinkInTurn(scene, ingesters);

        await typed(write);
        await typed(written);
        const { settings: writing } = await installed(api, namespace);
        assert.equal(writing.WRITE_LAST_DOWNSCALE, "true");
        await replicas.replace({ ...writing, ...own });
        await timesWritten(scene);
        await typed(uninstall);
        await typed(back);
        for (const path of paths) await api.get(path);
      })
        .finally(() => service.close())
        .finally(remove);
    });

  /** Starts Sluice as the Deployment of the operator has it. `port`: where the API server sends reviews. */
  async function serveInPlace(scene: Scene, ingesters: Ingesters, port: number): Promise<Server> {
    const { namespace } = scene.group;
    const { serviceAccountName, containers } = await operatorIn(scene);
    assert.equal(serviceAccountName, "rollout-operator");
    const [{ image, args, env } = assert.fail("no container")] = containers;
    assert.equal(image, "registry.invalid/sluice:0.1.0");
    const settings = Object.fromEntries(env.map(({ name, value }) => [name, value]));
    const kubeconfig = await kubeconfigOf(stage.controlPlane, scene.api, namespace, serviceAccountName);
    const ports = [`-server.port=${await freePort()}`, `-server-tls.port=${port}`];
    const server = await scene.serve(
      { ...settings, NODE_OPTIONS: ingesters.nodeOptions, PORT: "", NAMESPACE: "" },
      { kubeconfig, args: [...args, ...ports] },
    );
    await server.ready();
    return server;
  }

  for (const [major, chart] of [
    ["4", "loki"],
    ["3", "tempo"],
  ] as const)
    test(`Helm ${major}: with ${chart}.yaml the subchart of the release runs Sluice, under its account and its arguments, and hands the times back`, async () => {
      const helm = stage.helmOf(major);
      const namespace = `with-${chart}`;
      const port = await freePort();
      const typed = (line: string) => type(line.replaceAll("loki", chart), helm, namespace, "", port);
      await playPrepared(namespace, async (scene, ingesters) => {
        for (const definition of ["replicatemplates", "zoneawarepoddisruptionbudgets"])
          await kubectl.run("apply", "--server-side", "-f", `knative/base/crds/${definition}.yaml`);
        await kubectl.waitForDefinitions();
        await helm.run("install", "prod", parent.folder, "--namespace", namespace);
        // As the operator has made it.
        await kubectl.run("-n", namespace, "create", "secret", "generic", "certificate");
        const before = await operatorIn(scene);
        const [, bound = ""] = /```yaml\n([^`]*operator-account[^`]*)```/.exec(migration) ?? [];
        await apart((own) => own.applyKustomization(bound.replaceAll("mimir", namespace)));
        const [upgrade = "", status = ""] = await commandsOf("Loki and Tempo by Helm", "(?:helm upgrade|kubectl)");
        await typed(upgrade);
        await typed(status);
        await eventually("the pod of the operator gone", 30_000, async () => {
          const images = ["get", "pods", "-l", operators, "-o", "jsonpath={.items[*].spec.containers[*].image}"];
          return (await kubectl.run("-n", namespace, ...images)).includes("rollout-operator") ? undefined : true;
        });
        const server = await serveInPlace(scene, ingesters, port);
        await trusted(scene.api, pathOf("prepare-downscale", namespace, "Mutating"));
        await mirror(scene, chart);
        await kubectl.run("-n", namespace, "annotate", "statefulsets", ...scene.group.statefulSets, longAgo);
        await shrinkInTurn(scene, ingesters);

        const [write = "", written = "", back = ""] = await commandsOf(
          "Go back to the operator's image",
          "(?:helm|kubectl)",
        );
        await typed(write);
        await typed(written);
        await server.stop();
        await serveInPlace(scene, ingesters, port);
        await timesWritten(scene);
        await typed(back);
        assert.deepEqual(await operatorIn(scene), before);
        assert.deepEqual((await askedBy(stage.controlPlane, 0, namespace, "rollout-operator")).forbidden, []);
      });
    });

  // One after the other: both namespaces share two ClusterRoles.
  test("each Helm takes over what our manifests have installed", async () => {
    for (const helm of stage.helms) {
      const { major } = helm;
      const namespace = `taken-${major}`;
      await kubectl.run("create", "namespace", namespace);
      const objects = await apart((own) => own.buildIn(namespace, "standalone"));
      await apart((own) => own.apply(objects.filter(({ kind }) => kind === "CustomResourceDefinition")));
      await kubectl.waitForDefinitions();
      const rest = await kubectl.file(
        `${namespace}.yaml`,
        JSON.stringify({ apiVersion: "v1", kind: "List", items: objects }),
      );
      await kubectl.run("apply", "-f", rest);
      for (const line of await commandsOf("From our manifests to our chart", "kubectl"))
        await kubectl.shell(line.replace("mimir", namespace));
      const [line = ""] = await commandsOf("From our manifests to our chart", "helm");
      const more = major === "4" ? " --force-conflicts" : "";
      await type(`${line}${more}`, helm, namespace, join(root, "knative/chart"));
      await helm.run("uninstall", "sluice", "--namespace", namespace);
      const left = await apart((own) =>
        own.existing(objects.filter(({ kind }) => !/^(Namespace|CustomResourceDefinition)$/.test(kind))),
      );
      // Other namespaces may share these.
      assert.deepEqual(left.map(({ kind, metadata }) => `${kind}/${metadata.name}`).sort(), [
        "ClusterRole/sluice-operator",
        "ClusterRole/sluice:sluice",
      ]);
    }
  });
});
