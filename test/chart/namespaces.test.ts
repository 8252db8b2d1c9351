/** One release of the chart that serves several namespaces: what it renders, and that it works in each of them. */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { presets } from "../../triggers/table.ts";
import { Api } from "../controlplane/api.ts";
import { auditPosition } from "../controlplane/audit.ts";
import type { ControlPlane } from "../controlplane/controlplane.ts";
import { freePort } from "../controlplane/ports.ts";
import { chart, chartOfThisMachine, Helm, skipWithoutHelm, someImage } from "../support/helm.ts";
import { askedBy, kubeconfigOf, tokenOf } from "../support/installed.ts";
import type { Built } from "../support/kubectl.ts";
import { play, type Scene, skipWithoutControlPlane } from "../support/scene.ts";
import {
  type Configuration,
  createBudget,
  installed,
  keyed,
  rollAndEvict,
  scaleDownWithout,
  webhooksPath,
} from "./deployed.ts";
import { type ChartStage, startChartStage } from "./stage.ts";

interface Rule {
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  readonly resourceNames?: readonly string[];
}

interface Rendered extends Built {
  readonly metadata: Built["metadata"] & { readonly labels?: Readonly<Record<string, string>> };
  readonly rules?: readonly Rule[];
  readonly subjects?: readonly { readonly namespace: string }[];
  readonly webhooks?: readonly {
    readonly clientConfig: { readonly service: { readonly name: string; readonly namespace: string } };
    readonly namespaceSelector: object;
  }[];
}

/** Each object by its kind, namespace and name: two releases must have none in common. */
function idsOf(objects: readonly Built[]): string[] {
  const own = objects.filter(({ kind }) => kind !== "CustomResourceDefinition");
  return own.map(({ kind, metadata: { namespace = "", name } }) => `${kind} ${namespace}/${name}`).sort();
}

suite("a release for several namespaces, as it is rendered", { skip: await skipWithoutHelm() }, () => {
  let opened: Awaited<ReturnType<typeof Helm.open>>;
  before(async () => {
    opened = await Helm.open();
  });
  after(() => opened?.close());

  const render = async (namespace: string, namespaces: readonly string[], functions = Object.keys(presets)) => {
    const [helm = assert.fail()] = opened.helms;
    const values = { ...someImage, functions, namespaces };
    return (await helm.render(values, { namespace })) as readonly Rendered[];
  };
  const named = (objects: readonly Rendered[], name: string) => objects.filter((one) => one.metadata.name === name);
  const roleIn = (objects: readonly Rendered[], namespace: string) =>
    objects.filter(({ kind, metadata }) => kind === "Role" && metadata.namespace === namespace);
  const resourcesOf = ({ rules = [] }: Rendered) => rules.flatMap(({ resources }) => resources);

  test("each namespace has a Role, a RoleBinding and webhook configurations, which ask the Service of the release", async () => {
    const objects = await render("central", ["mimir", "123", "loki"]);
    for (const namespace of ["mimir", "123", "loki"]) {
      const [binding, ...others] = objects.filter(
        ({ kind, metadata }) => kind === "RoleBinding" && metadata.namespace === namespace,
      );
      assert.deepEqual([binding?.metadata.name, binding?.subjects?.[0]?.namespace, others], ["sluice", "central", []]);
      const [role = assert.fail()] = roleIn(objects, namespace);
      assert.ok(resourcesOf(role).includes("statefulsets") && !resourcesOf(role).includes("secrets"));
      const configurations = objects.filter(
        ({ webhooks, metadata }) => webhooks && metadata.name.endsWith(`-${namespace}`),
      );
      assert.equal(configurations.length, 4);
      for (const { webhooks = [], metadata } of configurations) {
        const [{ clientConfig, namespaceSelector } = assert.fail()] = webhooks;
        const { name, namespace: place } = clientConfig.service;
        assert.deepEqual([name, place], ["rollout-operator", "central"]);
        assert.deepEqual(namespaceSelector, { matchLabels: { "kubernetes.io/metadata.name": namespace } });
        assert.equal(metadata.labels?.["grafana.com/namespace"], "central");
      }
    }
    const deployment = JSON.stringify(named(objects, "sluice").filter(({ kind }) => kind === "Deployment"));
    assert.match(deployment, /\{"name":"NAMESPACE","value":"mimir,123,loki"\}/);
  });

  test("the release's own namespace is served only if it is listed, and has the rights to the certificate in any case", async () => {
    const [apart = assert.fail()] = roleIn(await render("central", ["mimir"]), "central");
    assert.equal(apart.metadata.name, "sluice-certificate");
    assert.deepEqual(new Set(resourcesOf(apart)), new Set(["secrets", "events"]));
    const [listed = assert.fail()] = roleIn(await render("central", ["mimir", "central"]), "central");
    assert.equal(listed.metadata.name, "sluice");
    for (const resource of ["secrets", "events", "statefulsets"]) assert.ok(resourcesOf(listed).includes(resource));
    assert.deepEqual(idsOf(await render("central", ["central"])), idsOf(await render("central", [])));
  });

  for (const preset of Object.keys(presets))
    test(`the rights of the preset ${preset} in each of three namespaces are those in one, but for the certificate`, async () => {
      const rulesIn = (objects: readonly Rendered[], namespace: string) =>
        (roleIn(objects, namespace)[0]?.rules ?? []).map((rule) => JSON.stringify(rule)).sort();
      const isOfCertificate = (rule: string) => rule.includes('"secrets"');
      const alone = rulesIn(await render("central", [], [preset]), "central");
      assert.ok(alone.some(isOfCertificate) && alone.length > 5);
      const objects = await render("central", ["mimir", "central", "loki"], [preset]);
      assert.deepEqual(rulesIn(objects, "central"), alone);
      for (const namespace of ["mimir", "loki"])
        assert.deepEqual(
          rulesIn(objects, namespace),
          alone.filter((rule) => !isOfCertificate(rule)),
        );
    });

  test("objects of the cluster name the served namespaces, and what the account may write is fenced in each", async () => {
    const objects = await render("central", ["mimir", "loki"]);
    const [{ rules = [] } = assert.fail()] = named(objects, "sluice:sluice-webhooks:central").filter(
      ({ kind }) => kind === "ClusterRole",
    );
    const names = rules.flatMap(({ resourceNames = [] }) => resourceNames);
    assert.ok(names.includes("pod-eviction-mimir") && names.includes("pod-eviction-loki"), names.join());
    assert.doesNotMatch(names.join(), /central/);
    const policy = (name: string) => JSON.stringify(named(objects, `${name}.central`));
    for (const fence of ["sluice-fence-objects", "sluice-fence-leases"])
      assert.match(policy(fence), /"values":\["mimir","loki","central"\]/, fence);
    for (const guard of ["sluice-guard-claims", "sluice-guard-owners", "sluice-guard-ledgers"])
      assert.match(policy(guard), /"values":\["mimir","loki"\]/, guard);
    assert.match(policy("sluice-fence-volumes"), /"name":"namespaces","expression":"\['mimir', 'loki'\]"/);
  });

  test("two releases have no object in common unless they serve the same namespace", async () => {
    const inCommon = async (other: string, namespaces: readonly string[]) => {
      const theirs = idsOf(await render(other, namespaces));
      return idsOf(await render("central", ["mimir", "loki"])).filter((id) => theirs.includes(id));
    };
    assert.deepEqual(await inCommon("tempo", []), []);
    assert.deepEqual(await inCommon("mimir", ["tempo"]), []);
    for (const [other, namespaces] of [
      ["mimir", []],
      ["tempo", ["mimir"]],
    ] as const) {
      const both = await inCommon(other, namespaces);
      assert.ok(
        both.includes("Role mimir/sluice") && both.includes("MutatingWebhookConfiguration /pod-eviction-mimir"),
      );
    }
  });
});

/** A release that serves these namespaces, by one version of Helm. */
interface ServingRelease {
  readonly major: "3" | "4";
  readonly own: string;
  readonly served: readonly string[];
}

const releases: readonly ServingRelease[] = [
  { major: "4", own: "central-4", served: ["east-4", "west-4"] },
  { major: "3", own: "central-3", served: ["east-3", "central-3", "west-3"] },
];

suite("a release for several namespaces on the real API server", {
  skip: (await skipWithoutControlPlane()) || (await skipWithoutHelm()),
  concurrency: 4,
}, () => {
  let stage: ChartStage;
  let api: Api;
  before(async () => {
    stage = await startChartStage();
    api = await Api.open(stage.controlPlane, { userAgent: "sluice-test-namespaces" });
  });
  after(async () => {
    await api?.close();
    await stage?.stop();
  });
  /** The account can change nothing in any of the namespaces but what its functions change. */
  const attackFence = async (token: string, { own }: ServingRelease, scenes: readonly Scene[]) => {
    const account = await Api.open({ ...stage.controlPlane, token }, { userAgent: "sluice-test-thief" });
    const image = [{ op: "replace", path: "/spec/template/spec/containers/0/image", value: "evil:1" }];
    const secret = `/api/v1/namespaces/${own}/secrets/rollout-operator-self-signed-certificate`;
    const label = [{ op: "add", path: "/metadata/labels/a", value: "b" }];
    const json = "application/json-patch+json";
    const attempts = [
      ...scenes.map((scene) => [scene.statefulSetPath(scene.group.statefulSets[0] ?? ""), image] as const),
      [secret, label] as const,
    ];
    for (const [path, patch] of attempts)
      await assert.rejects(account.request("PATCH", path, patch, json), /sluice-fence-objects.*no other/, path);
    await account.close();
  };

  for (const release of releases)
    test(`Helm ${release.major} installs it for ${release.served.join(" and ")}: each is served, no right is missing, and nothing is left after it`, async () => {
      const { own, served } = release;
      const helm = stage.helmOf(release.major);
      const port = await freePort();
      const { folder, remove } = await chartOfThisMachine(port);
      const place = ["prod", folder, "--namespace", own, "--create-namespace"];
      const from = await auditPosition(stage.controlPlane.auditLog);
      try {
        await playInEach(stage.controlPlane, served, async (scenes) => {
          const values = await helm.values({ ...someImage, namespaces: served });
          const notes = await helm.run("install", ...place, ...values);
          assert.ok(notes.includes(`serves the namespaces ${served.join(", ")} with these functions`), notes);
          await Promise.all(scenes.map(createBudget));
          const [scene = assert.fail()] = scenes;
          const { account, settings } = await installed(api, own);
          assert.equal(settings.NAMESPACE, served.join());
          const kubeconfig = await kubeconfigOf(stage.controlPlane, api, own, account);
          const server = await scene.serve({ ...settings, PORT: "0", TLS_PORT: String(port) }, { kubeconfig });
          await server.ready();
          await Promise.all(served.map((namespace) => keyed(api, namespace)));
          await Promise.all(scenes.map(rollAndEvict));
          const configurations = await configurationsOf(api, own);
          assert.equal(configurations.length, 4 * served.length);
          for (const { metadata, webhooks } of configurations)
            assert.ok(webhooks[0]?.clientConfig.caBundle, metadata.name);
          assert.deepEqual(
            server.log.filter(({ level }) => level === "error"),
            [],
          );
          const { asked, forbidden } = await askedBy(stage.controlPlane, from, own, account);
          assert.deepEqual(forbidden, []);
          assert.ok(asked.includes("delete pods") && asked.includes("patch secrets"), asked.join());
          await attackFence(await tokenOf(api, own, account), release, scenes);
          await helm.run("uninstall", "prod", "--namespace", own);
          assert.deepEqual(await leftOf(api, [own, ...served]), []);
          for (const one of scenes) await scaleDownWithout(one);
        });
      } finally {
        await remove();
      }
    });

  for (const major of ["4", "3"] as const)
    test(`Helm ${major} names a namespace that is missing, and refuses a second release for a namespace`, async () => {
      const [own, served] = [`owner-${major}`, `tenant-${major}`];
      const helm = stage.helmOf(major);
      for (const namespace of [own, served]) await api.post("/api/v1/namespaces", { metadata: { name: namespace } });
      const missing = await helm.values({ ...someImage, namespaces: [served, `missing-${major}`] });
      const failed = await helm.try("install", "prod", chart, "--namespace", own, ...missing);
      assert.notEqual(failed.code, 0);
      assert.match(failed.stderr, new RegExp(`namespaces "missing-${major}" not found`));
      const { settings } = await installed(api, own);
      assert.equal(settings.NAMESPACE, `${served},missing-${major}`, "the others are served all the same");
      const values = await helm.values({ ...someImage, namespaces: [served] });
      await helm.run("upgrade", "--install", "prod", chart, "--namespace", own, ...values);
      assert.equal((await configurationsOf(api, own)).length, 4);
      const second = await helm.try(
        "install",
        "second",
        chart,
        "--namespace",
        served,
        ...(await helm.values(someImage)),
      );
      assert.notEqual(second.code, 0);
      assert.match(
        second.stderr,
        new RegExp(`in namespace "${served}" exists and cannot be imported into the current release`),
      );
      const moved = await helm.values({ ...someImage, namespaces: [own] });
      await helm.run("upgrade", "prod", chart, "--namespace", own, ...moved);
      assert.deepEqual(await leftOf(api, [served]), [], "a namespace that is taken out of the list");
      assert.equal((await configurationsOf(api, own)).length, 4);
      await helm.run("uninstall", "prod", "--namespace", own);
      assert.deepEqual(await leftOf(api, [own, served]), []);
      const undoing = major === "4" ? "--rollback-on-failure" : "--atomic";
      const undone = await helm.try("install", "prod", chart, "--namespace", own, undoing, ...missing);
      assert.match(undone.stderr, new RegExp(`namespaces "missing-${major}" not found`));
      assert.deepEqual(await leftOf(api, [own, served]), [], "what was made before that is undone");
    });
});

/** Sets a scene in each of these namespaces, and plays all of them at once. */
async function playInEach(
  controlPlane: ControlPlane,
  namespaces: readonly string[],
  work: (scenes: readonly Scene[]) => Promise<void>,
  scenes: readonly Scene[] = [],
): Promise<void> {
  const [namespace, ...others] = namespaces;
  if (namespace === undefined) return work(scenes);
  await play(controlPlane, namespace, { zones: 3, pods: 2 }, (scene) =>
    playInEach(controlPlane, others, work, [...scenes, scene]),
  );
}

async function configurationsOf(api: Api, namespace: string): Promise<readonly (Built & Configuration)[]> {
  const query = `?labelSelector=grafana.com/namespace=${namespace}`;
  const paths = [webhooksPath, webhooksPath.replace("mutating", "validating")];
  const lists = await Promise.all(
    paths.map((path) => api.get<{ items: (Built & Configuration)[] }>(`${path}${query}`)),
  );
  return lists.flatMap(({ items }) => items);
}

/** What of Sluice is there: in these namespaces, but for ledgers and budgets, and of the cluster what is called after them. */
async function leftOf(api: Api, namespaces: readonly string[]): Promise<string[]> {
  const rbac = "/apis/rbac.authorization.k8s.io/v1";
  const admission = "/apis/admissionregistration.k8s.io/v1";
  const ofCluster = [
    `${rbac}/clusterroles`,
    `${rbac}/clusterrolebindings`,
    webhooksPath,
    webhooksPath.replace("mutating", "validating"),
    `${admission}/validatingadmissionpolicies`,
    `${admission}/validatingadmissionpolicybindings`,
  ];
  const ofNamespace = namespaces.flatMap((namespace) => [
    ...["roles", "rolebindings"].map((plural) => `${rbac}/namespaces/${namespace}/${plural}`),
    ...["services", "serviceaccounts", "secrets"].map((plural) => `/api/v1/namespaces/${namespace}/${plural}`),
    `/apis/apps/v1/namespaces/${namespace}/deployments`,
    `/apis/networking.k8s.io/v1/namespaces/${namespace}/networkpolicies`,
  ]);
  const listed = await Promise.all(
    [...ofCluster, ...ofNamespace].map(async (path) => {
      const { items } = await api.get<{ items: Rendered[] }>(`${path}?labelSelector=app.kubernetes.io/name=sluice`);
      return items.map(({ metadata }) => ({ metadata, path: `${path}/${metadata.name}` }));
    }),
  );
  const isOfThese = ({ namespace, name }: Built["metadata"]) =>
    namespace !== undefined || namespaces.some((one) => new RegExp(`[-.:]${one}$`).test(name));
  return listed.flat().flatMap(({ metadata, path }) => (isOfThese(metadata) ? [path] : []));
}
