/** The chart beside the manifests: the same definitions make the same objects, but for what a list here explains. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { presets } from "../../triggers/table.ts";
import { findAssets } from "../controlplane/controlplane.ts";
import { Helm, isHook, skipWithoutHelm, someImage } from "../support/helm.ts";
import { type Built, Kubectl } from "../support/kubectl.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  readonly resourceNames?: readonly string[];
}

interface Variable {
  readonly name: string;
  readonly value: string;
}

interface Pod {
  readonly containers: readonly { readonly env: readonly Variable[]; readonly imagePullPolicy?: string }[];
}

interface Whole extends Built {
  readonly rules?: readonly Rule[];
  readonly roleRef?: { readonly kind: string; readonly name: string };
  readonly spec?: { readonly template?: { readonly metadata: object; readonly spec: Pod } };
}

/** One by one, so that neither the order of rules counts nor which resources stand together. */
function rightsIn(rules: readonly Rule[]): string[] {
  const all = rules.flatMap(({ apiGroups, resources, verbs, resourceNames = [""] }) =>
    apiGroups.flatMap((group) =>
      resources.flatMap((resource) =>
        verbs.flatMap((verb) => resourceNames.map((name) => `${verb} ${resource}.${group} ${name}`)),
      ),
    ),
  );
  return [...new Set(all)].sort();
}

/**
 * What the two have in common. They differ in:
 * - the names of ClusterRoles, which end in the namespace in the chart: Helm refuses an object that another release owns;
 * - FUNCTION, which is `all` in the overlay, and a list of names in the chart;
 * - the image and its pull policy, which are values of the chart;
 * - the hook of Helm that comes before an uninstall: without Helm a user types the commands;
 * - the order of rules and of variables, which says nothing;
 * - the namespace of policies, which have none: kustomize writes it all the same, and the API server drops it;
 * - line breaks in the expressions of policies, which kustomize folds in its own way.
 */
function common(object: Whole, namespace: string): Whole {
  const { kind, metadata, rules, roleRef, spec } = object;
  const bare = (name: string) => name.replace(new RegExp(`^(sluice:sluice|sluice-operator):${namespace}$`), "$1");
  if (kind === "ClusterRole" || kind === "Role")
    return { ...object, metadata: { ...metadata, name: bare(metadata.name) }, rules: rightsIn(rules ?? []) as never };
  if (kind === "ClusterRoleBinding" && roleRef !== undefined)
    return { ...object, roleRef: { ...roleRef, name: bare(roleRef.name) } };
  if (kind.startsWith("ValidatingAdmissionPolicy")) {
    const { namespace: _, ...own } = metadata;
    return JSON.parse(JSON.stringify({ ...object, metadata: own }).replace(/(\\n|\s)+/g, " "));
  }
  if (kind !== "Deployment" || spec?.template === undefined) return object;
  const containers = spec.template.spec.containers.map(({ imagePullPolicy: _, ...container }) => ({
    ...container,
    image: "",
    env: container.env.filter(({ name }) => name !== "FUNCTION").toSorted((a, b) => a.name.localeCompare(b.name)),
  }));
  return { ...object, spec: { ...spec, template: { ...spec.template, spec: { ...spec.template.spec, containers } } } };
}

function byName(objects: readonly Built[], namespace: string): Record<string, Whole> {
  const entries = objects.map((object) => common(object as Whole, namespace));
  return Object.fromEntries(entries.map((one) => [`${one.kind} ${one.metadata.name}`, one]));
}

/** Before the first test, because the runner takes a file whose tests have ended for one that is to end. */
const skip = await skipWithoutHelm();

suite("the chart beside the manifests", {
  skip: (await skipWithoutControlPlane()) || (await skipWithoutHelm()),
}, () => {
  let opened: Awaited<ReturnType<typeof Helm.open>>;
  let kubectl: Kubectl;
  before(async () => {
    const assets = (await findAssets()) ?? assert.fail();
    opened = await Helm.open();
    kubectl = await Kubectl.open({ kubectl: join(assets, "kubectl"), kubeconfig: "/nowhere" });
  });
  after(async () => {
    await opened?.close();
    await kubectl?.close();
  });
  const everything = { ...someImage, functions: Object.keys(presets) };

  for (const namespace of ["mimir", "loki-2"])
    test(`all functions in the namespace ${namespace} are the objects of the overlay standalone`, async () => {
      const overlay = await kubectl.buildIn(namespace, "standalone");
      const [helm = assert.fail()] = opened.helms;
      const rendered = (await helm.render(everything, { namespace })).filter((one) => !isHook(one));
      assert.equal(rendered.length, overlay.length);
      assert.deepEqual(byName(rendered, namespace), byName(overlay, namespace));
    });

  test("what watches it is as in the folder of the manifests", async () => {
    const [helm = assert.fail()] = opened.helms;
    const watched = { serviceMonitor: { enabled: true }, monitoring: { alerts: true, dashboard: true } };
    const kinds = ["ServiceMonitor", "PrometheusRule", "ConfigMap"];
    const rendered = await helm.render({ ...someImage, ...watched }, { namespace: "loki-2" });
    const built = await kubectl.buildIn("loki-2", "standalone", [], [], ["base/monitoring"]);
    const [chart = {}, manifests = {}] = [rendered, built].map((objects) =>
      byName(
        objects.filter(({ kind }) => kinds.includes(kind)),
        "loki-2",
      ),
    );
    assert.ok(JSON.stringify(chart).includes('absent(sluice_build_info{namespace=\\"loki-2\\"})'));
    assert.deepEqual(chart, manifests);
  });
});

suite("the rights of the chart", { skip }, () => {
  let opened: Awaited<ReturnType<typeof Helm.open>>;
  before(async () => {
    opened = await Helm.open();
  });
  after(() => opened?.close());

  const rightsWith = async (values: object) => {
    const [helm = assert.fail()] = opened.helms;
    const objects = (await helm.render({ ...someImage, ...values })) as readonly Whole[];
    const roles = objects.filter(
      ({ metadata, rules }) => rules && metadata.name.startsWith("sluice") && !/operator/.test(metadata.name),
    );
    return rightsIn(roles.flatMap(({ rules }) => rules ?? []));
  };

  test("unless more is chosen, they change no volume claim, no pod but by deleting it, and name no database", async () => {
    const rights = await rightsWith({});
    assert.ok(rights.includes("delete pods. ") && rights.length > 20, rights.join("\n"));
    const changing = rights.filter((right) => !/^(get|list|watch) /.test(right));
    const names = changing.map((right) => right.trim());
    assert.deepEqual(
      names.filter((right) => / (pods|persistentvolumeclaims)/.test(right)),
      ["delete pods."],
    );
    assert.doesNotMatch(rights.join("\n"), /rabbitmq|foundationdb|persistentvolumes|pods\/exec|\*/);
    assert.match(rights.join("\n"), /list persistentvolumeclaims/);
  });

  test("the kinds of a list add rights for the functions that name them, and only where these are chosen", async () => {
    const of = async (functions: readonly string[], kinds: object) => {
      const rights = await rightsWith({ functions, kinds });
      return rights
        .filter((right) => /things|brokers|replicatemplates|deployments\/|statefulsets\/scale/.test(right))
        .map((right) => right.trim());
    };
    // Its controller writes the status of a Deployment.
    const kinds = { mirrored: ["things.example.com", "deployments.apps"], owners: ["brokers.example.com"] };
    const scaled = ["get deployments/scale.apps", "get things/scale.example.com", "patch things/status.example.com"];
    const owned = ["get brokers.example.com", "list brokers.example.com", "patch brokers.example.com"];
    assert.deepEqual(await of(["rollout-operator"], kinds), scaled);
    assert.deepEqual(await of(["follow-replicas"], kinds), scaled);
    assert.deepEqual(await of(["prepare-delayed-downscale"], kinds), scaled.slice(0, 2));
    assert.deepEqual(await of(["mark-skip-label"], kinds), owned);
    assert.deepEqual(await of(["evaluate-eviction", "suspend-group"], kinds), []);
    assert.deepEqual(await of(["follow-replicas", "mark-skip-label"], { mirrored: [], owners: [] }), []);
    assert.deepEqual(await of(["rollout-operator"], {}), [
      "get replicatemplates/scale.rollout-operator.grafana.com",
      "get statefulsets/scale.apps",
      "patch replicatemplates/status.rollout-operator.grafana.com",
    ]);
  });

  test("of webhook configurations, they change those that a chosen function answers", async () => {
    const of = async (functions: readonly string[]) =>
      (await rightsWith({ functions })).flatMap(
        (right) => /^patch (.+)webhookconf\S+ (.+)-mimir$/.exec(right)?.slice(1).join(" ") ?? [],
      );
    assert.deepEqual(await of(["rabbitmq", "suspension", "foundationdb"]), []);
    assert.deepEqual(await of(["guard-downscale"]), ["validating no-downscale"]);
    assert.deepEqual(await of(["evaluate-eviction"]), ["mutating pod-eviction", "validating pod-eviction"]);
    assert.equal((await of(["rollout-operator"])).length, 5);
  });

  test("the policies hold the accounts to what they change of the listed kinds, and of no others", async () => {
    const [helm = assert.fail()] = opened.helms;
    const textOf = async (kinds: object) => {
      const objects = await helm.render({ ...someImage, kinds });
      return JSON.stringify(objects.filter(({ kind }) => kind === "ValidatingAdmissionPolicy"));
    };
    const mirrored = ["things.example.com", "configmaps", "deployments.apps"];
    const text = await textOf({ mirrored, owners: ["brokers.example.com"] });
    assert.match(text, /'things\.example\.com\/status': \['status\.replicas'\]/);
    assert.match(text, /'configmaps\/status': \['status\.replicas'\]/);
    assert.match(text, /'brokers\.example\.com': \['metadata\.annotations\[sluice\.dev\/skip-status\]'/);
    assert.equal(
      text.match(/"resources":\["brokers(","things\/status)?"\]/g)?.length,
      2,
      "the fence, and the guard of owners",
    );
    assert.doesNotMatch(text, /replicatemplates|deployments\.apps\/status|\.kinds|"kinds"/);
    assert.doesNotMatch(await textOf({ mirrored: [], owners: [] }), /things|brokers|\.kinds|"kinds"/);
  });

  test("of no webhooks, no function that answers them is left, and no configuration", async () => {
    const [helm = assert.fail()] = opened.helms;
    const names = async (values: object) =>
      (await helm.render({ ...someImage, ...values }))
        .filter(({ kind }) => kind.endsWith("WebhookConfiguration"))
        .map(({ metadata }) => metadata.name);
    assert.deepEqual(await names({ functions: ["rabbitmq"] }), []);
    assert.deepEqual(await names({ functions: ["guard-downscale"] }), ["no-downscale-mimir"]);
    assert.deepEqual(await names({ webhooks: { enabled: false } }), []);
    assert.equal((await names({})).length, 4);
  });

  test("nothing that is rendered has a caBundle, or data of a Secret", async () => {
    const [helm = assert.fail()] = opened.helms;
    const objects = await helm.render({ ...someImage, functions: Object.keys(presets) });
    assert.doesNotMatch(JSON.stringify(objects), /"caBundle":/);
    const secrets = objects.filter(({ kind }) => kind === "Secret");
    assert.equal(secrets.length, 1);
    assert.ok(secrets.every((secret) => !("data" in secret) && !("stringData" in secret)));
  });
});
