/** Values of the chart, good and bad, by both versions of Helm: they render, or are refused by a message that names the key. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { dump, load } from "js-yaml";
import { isStandard } from "../../functions/shared/contract/definition.ts";
import { presets, table } from "../../triggers/table.ts";
import { chart, Helm, type RenderOptions, skipWithoutHelm, someImage } from "../support/helm.ts";

interface Case extends RenderOptions {
  readonly name: string;
  readonly values: object;
}

interface BadCase extends Case {
  /** What the refusal says. */
  readonly expected: RegExp;
}

const monitored = {
  serviceMonitor: {
    enabled: true,
    namespace: "monitoring",
    annotations: { a: "b" },
    labels: { release: "prometheus" },
    interval: "10s",
    scrapeTimeout: "5s",
    relabelings: [{ action: "labeldrop", regex: "pod" }],
  },
  monitoring: { alerts: true, dashboard: true, labels: { release: "prometheus" } },
};

const placed = {
  nodeSelector: { a: "b" },
  tolerations: [{ operator: "Exists" }],
  affinity: { podAntiAffinity: null, nodeAffinity: {} },
  topologySpreadConstraints: [{ maxSkew: 1, topologyKey: "a", whenUnsatisfiable: "DoNotSchedule" }],
  priorityClassName: "system-cluster-critical",
};

const good: readonly Case[] = [
  { name: "the image alone", values: {} },
  {
    name: "what Helm hands to a subchart",
    values: { enabled: true, global: { commonLabels: { a: "b" }, other: [1] } },
  },
  ...Object.keys(presets).map((preset) => ({ name: `the preset ${preset}`, values: { functions: [preset] } })),
  { name: "a function by its name, and a preset", values: { functions: ["rabbitmq", "advance-zone-rollout"] } },
  { name: "one replica", values: { replicas: 1 } },
  { name: "an image of a registry that asks for a password", values: { imagePullSecrets: [{ name: "a" }] } },
  {
    name: "settings of each type",
    values: { settings: { CONCURRENCY: 4, SWEEP_INTERVAL: "90s", UPDATE_CA_BUNDLE: true } },
  },
  { name: "labels to skip", values: { settings: { SKIP_LABEL_KEYS: "skipPreStopChecks, example.com/*" } } },
  {
    name: "kinds of each list, and one twice",
    values: {
      kinds: { mirrored: ["configmaps", "things.example.com", "things.example.com"], owners: ["a.b.example.com"] },
    },
  },
  { name: "no kinds", values: { kinds: { mirrored: [], owners: [] } } },
  { name: "flags and variables", values: { extraArgs: ["-log.level=debug"], extraEnv: [{ name: "A", value: "b" }] } },
  { name: "labels and annotations", values: { podLabels: { a: "b" }, podAnnotations: { c: "d" } } },
  { name: "places", values: placed },
  { name: "monitoring", values: monitored },
  { name: "before an uninstall", values: { functions: ["rabbitmq"], uninstall: { prepare: true } } },
  {
    name: "before an uninstall, with a setting that says so already",
    values: {
      functions: ["suspension"],
      uninstall: { prepare: true },
      settings: { VOLUME_HOLD: "remove", SKIP_LABEL_FINALIZER: "keep" },
    },
  },
  { name: "no NetworkPolicy", values: { networkPolicy: { enabled: false } } },
  { name: "no webhooks", values: { webhooks: { enabled: false } } },
  {
    name: "other failure policies",
    values: { webhooks: { failurePolicy: "Ignore", failurePolicies: { podEviction: "Fail" } } },
  },
  { name: "a namespace that is a number", values: {}, namespace: "123" },
  { name: "several namespaces", values: { namespaces: ["123", "loki-2"], functions: Object.keys(presets) } },
  { name: "its own namespace beside another", values: { namespaces: ["mimir", "loki"] } },
  { name: "a namespace of 63 characters", values: { namespaces: ["n".repeat(63)] } },
  { name: "an empty list of namespaces", values: { namespaces: [] } },
  { name: "a version of a cloud", values: {}, flags: ["--kube-version", "v1.30.5-gke.1014001"] },
];

/** As each version of Helm names a value in a message about the schema. */
function pathOf(list: string): RegExp {
  return new RegExp(`kinds[./]${list}`);
}

const sections = ["image", "kinds", "uninstall", "webhooks", "networkPolicy", "serviceMonitor", "monitoring"];
/** The schema refuses what is malformed; the templates say why, also where a user skips the schema. */
const skipped = { flags: ["--skip-schema-validation"] };
const kindCases: readonly BadCase[] = [
  ...["mirrored", "owners"].flatMap((list): BadCase[] => [
    { name: `a wildcard in ${list}`, values: { kinds: { [list]: ["*.example.com"] } }, expected: pathOf(list) },
    {
      name: `a kind by its name in ${list}`,
      values: { kinds: { [list]: ["Thing.example.com"] } },
      expected: pathOf(list),
    },
    { name: `a subresource in ${list}`, values: { kinds: { [list]: ["pods/exec"] } }, expected: pathOf(list) },
    { name: `a number in ${list}`, values: { kinds: { [list]: [7] } }, expected: pathOf(list) },
    { name: `a text for ${list}`, values: {}, set: [`kinds.${list}=statefulsets.apps`], expected: pathOf(list) },
    {
      name: `a wildcard in ${list}, past the schema`,
      values: { kinds: { [list]: ["*.example.com"] }, functions: Object.keys(presets) },
      expected: new RegExp(`kinds\\.${list} has "\\*\\.example\\.com", a wildcard: list each kind by itself`),
      ...skipped,
    },
    {
      name: `a kind by its name in ${list}, past the schema`,
      values: { kinds: { [list]: ["Thing.example.com"] }, functions: Object.keys(presets) },
      expected: new RegExp(`kinds\\.${list} has "Thing\\.example\\.com", which is not PLURAL\\.GROUP`),
      ...skipped,
    },
    {
      name: `a number in ${list}, past the schema`,
      values: { kinds: { [list]: [7] }, functions: Object.keys(presets) },
      expected: new RegExp(`kinds\\.${list} has 7, which is no text: write PLURAL\\.GROUP`),
      ...skipped,
    },
    {
      name: `Secrets in ${list}`,
      values: { kinds: { [list]: ["secrets"] } },
      expected: new RegExp(`kinds\\.${list} has "secrets", which are credentials`),
    },
    {
      name: `a kind of no namespace in ${list}`,
      values: { kinds: { [list]: ["nodes"] } },
      expected: new RegExp(`kinds\\.${list} has "nodes", a kind of no namespace`),
    },
  ]),
  { name: "an unknown list of kinds", values: { kinds: { owner: [] } }, expected: /owner/ },
];

const namespaceCases: readonly BadCase[] = [
  ...[
    {
      name: "a namespace twice",
      namespaces: ["a", "b", "a"],
      message: /namespaces has "a" twice: list each namespace once/,
    },
    {
      name: "a namespace of 64 characters",
      namespaces: ["a".repeat(64)],
      message: /namespaces has "a{64}", which has 64 characters: the name of a namespace has at most 63/,
    },
    {
      name: "a namespace in capitals",
      namespaces: ["Mimir"],
      message: /namespaces has "Mimir", which is no name of a namespace/,
    },
    { name: "all namespaces", namespaces: ["*"], message: /namespaces has "\*", which is no name of a namespace/ },
    { name: "a namespace that ends in a dash", namespaces: ["a-"], message: /namespaces has "a-", which is no name/ },
    { name: "an empty name of a namespace", namespaces: [""], message: /namespaces has "", which is no name/ },
    { name: "a number as a namespace", namespaces: [7], message: /namespaces has 7, which is no text/ },
    { name: "null as a namespace", namespaces: [null], message: /namespaces has null, which is no text/ },
    { name: "a text for the namespaces", namespaces: "a", message: /namespaces is "a", which is no list: write \[a\]/ },
  ].flatMap(({ name, namespaces, message }): BadCase[] => [
    { name, values: { namespaces }, expected: /namespaces/ },
    { name: `${name}, past the schema`, values: { namespaces }, expected: message, ...skipped },
  ]),
  { name: "the setting NAMESPACE", values: { settings: { NAMESPACE: "a" } }, expected: /NAMESPACE/ },
];

const bad: readonly BadCase[] = [
  { name: "an unknown key", values: { replica: 2 }, expected: /replica/ },
  { name: "an unknown key in a section", values: { webhooks: { objectSelector: {} } }, expected: /objectSelector/ },
  { name: "no function", values: { functions: [] }, expected: /functions is empty: write \[rollout-operator\]/ },
  {
    name: "an unknown function",
    values: { functions: ["rollout-operator", "advance-zones"] },
    expected: new RegExp(
      `functions has "advance-zones".*${Object.keys(presets).sort().join(", ")}.*${table.find(isStandard)?.name}`,
    ),
  },
  { name: "a text for a list of functions", values: {}, set: ["functions=rabbitmq"], expected: /functions/ },
  { name: "a text for a list", values: {}, set: ["tolerations=all"], expected: /tolerations/ },
  { name: "a list for a text", values: { priorityClassName: ["a"] }, expected: /priorityClassName/ },
  { name: "no replica", values: { replicas: 0 }, expected: /replicas is 0: .*deny every eviction/ },
  { name: "a number of replicas in words", values: { replicas: "two" }, expected: /replicas/ },
  {
    name: "the placeholder",
    values: { image: { repository: "registry.invalid/sluice" } },
    expected: /set image\.repository/,
  },
  {
    name: "a tag that is a number, such as 1.10",
    values: { image: { ...someImage.image, tag: 1.1 } },
    expected: /image.tag/,
  },
  { name: "no name of an image", values: { image: { repository: "" } }, expected: /set image\.repository/ },
  { name: "an unknown setting", values: { settings: { SWEEP_INTERVALL: "1m" } }, expected: /SWEEP_INTERVALL/ },
  {
    name: "a duration that does not parse",
    values: { settings: { SWEEP_INTERVAL: "soon" } },
    expected: /SWEEP_INTERVAL/,
  },
  { name: "a number out of bounds", values: { settings: { CONCURRENCY: 0 } }, expected: /CONCURRENCY/ },
  {
    name: "a word that is none of the setting's",
    values: { settings: { SLUICE_MODE: "maybe" } },
    expected: /SLUICE_MODE/,
  },
  { name: "a setting that the chart makes", values: { settings: { TLS_PORT: 1 } }, expected: /TLS_PORT/ },
  { name: "a word for uninstall.prepare", values: { uninstall: { prepare: "yes" } }, expected: /prepare/ },
  {
    name: "a finalizer that a setting keeps, before an uninstall",
    values: { functions: ["rabbitmq"], uninstall: { prepare: true }, settings: { SKIP_LABEL_FINALIZER: "keep" } },
    expected:
      /uninstall\.prepare is true, and settings\.SKIP_LABEL_FINALIZER is "keep": take that out, or write remove/,
  },
  {
    name: "a finalizer that a variable keeps, before an uninstall",
    values: {
      functions: ["foundationdb"],
      uninstall: { prepare: true },
      extraEnv: [{ name: "VOLUME_HOLD", value: "keep" }],
    },
    expected: /uninstall\.prepare is true, and extraEnv has VOLUME_HOLD: take that out/,
  },
  { name: "an unknown failure policy", values: { webhooks: { failurePolicy: "Maybe" } }, expected: /failurePolicy/ },
  {
    name: "an unknown webhook",
    values: { webhooks: { failurePolicies: { podEvictions: "Fail" } } },
    expected: /podEvictions/,
  },
  { name: "a number as a label", values: { podLabels: { a: 1 } }, expected: /podLabels/ },
  ...kindCases,
  ...namespaceCases,
  { name: "null for the functions", values: { functions: null }, expected: /functions/ },
  { name: "null for the replicas", values: { replicas: null }, expected: /replicas/ },
  ...sections.map((key) => ({ name: `null for ${key}`, values: { [key]: null }, expected: new RegExp(key) })),
  {
    name: "an older Kubernetes",
    values: {},
    flags: ["--kube-version", "v1.29.9"],
    expected: /kubeVersion: >=1\.30\.0-0/,
  },
];

interface Schema {
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, Schema>>;
}

/** The values with one optional key that is null, for each such key of the schema, also of those in sections. */
function withNull({ properties = {} }: Schema): readonly { readonly key: string; readonly values: object }[] {
  return Object.entries(properties).flatMap(([key, inner]) => {
    const isOptional = inner.type?.includes("null") || inner.enum?.includes(null);
    const own = isOptional ? [{ key, values: { [key]: null } }] : [];
    const deeper = withNull(inner).map((one) => ({ key: `${key}.${one.key}`, values: { [key]: one.values } }));
    return [...own, ...deeper];
  });
}

type Values = Readonly<Record<string, unknown>>;

/** Values without one key, for each key and for each key of a section. */
function withoutEach(values: Values): readonly { readonly key: string; readonly without: Values }[] {
  return Object.entries(values).flatMap(([key, inner]) => {
    const { [key]: _, ...without } = values;
    if (!sections.includes(key)) return [{ key, without }];
    const deeper = withoutEach(inner as Values).map((one) => ({
      key: `${key}.${one.key}`,
      without: { ...values, [key]: one.without },
    }));
    return [{ key, without }, ...deeper];
  });
}

suite("values of the chart", { skip: await skipWithoutHelm(), concurrency: 2 }, () => {
  let opened: Awaited<ReturnType<typeof Helm.open>>;
  before(async () => {
    opened = await Helm.open();
  });
  after(() => opened?.close());

  test("good ones pass the strict lint and render, and both versions of Helm make the same objects of them", async () => {
    for (const { name, values, ...options } of good) {
      const rendered = [];
      for (const helm of opened.helms) {
        const all = { ...someImage, ...values };
        await helm.run("lint", "--strict", chart, ...(await helm.values(all)));
        rendered.push(await helm.render(all, options));
      }
      const [one, other] = rendered;
      assert.ok((one?.length ?? 0) > 20, name);
      const sorted = (objects: typeof one) => objects?.toSorted((a, b) => keyOf(a).localeCompare(keyOf(b)));
      assert.deepEqual(sorted(one), sorted(other), name);
    }
  });

  test("bad ones are refused by a message that names the key", async () => {
    for (const { name, values, expected, ...options } of bad)
      for (const helm of opened.helms) {
        const { code, stderr } = await helm.template({ ...someImage, ...values }, options);
        assert.notEqual(code, 0, `helm ${helm.major} renders ${name}`);
        assert.match(stderr, expected, `helm ${helm.major}: ${name}`);
      }
  });

  test("a value that --reuse-values leaves out, because the older chart had none, is made up for or named", async () => {
    const folder = await mkdtemp(join(tmpdir(), "sluice-older-"));
    await cp(chart, folder, { recursive: true });
    const values = load(readFileSync(join(chart, "values.yaml"), "utf8")) as Values;
    let refused = 0;
    try {
      for (const { key, without } of withoutEach(values)) {
        await writeFile(join(folder, "values.yaml"), dump(without));
        for (const helm of opened.helms) {
          const given = ["image", "image.repository"].includes(key) ? {} : someImage;
          const { code, stderr } = await helm.template(given, { chart: folder });
          if (code === 0) continue;
          refused++;
          assert.match(stderr, new RegExp(`missing property '${key.split(".").at(-1)}'|set ${key}`));
        }
      }
      assert.ok(refused > 10);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  test("each optional key may be null", async () => {
    const schema = JSON.parse(readFileSync(join(chart, "values.schema.json"), "utf8")) as Schema;
    const cases = withNull(schema).filter(({ key }) => !/^(settings\.|image\.repository$)/.test(key));
    assert.ok(cases.length > 20);
    for (const { key, values } of cases)
      for (const helm of opened.helms) {
        const image = { ...someImage.image, ...(values as Partial<typeof someImage>).image };
        const { code, stderr } = await helm.template({ ...values, image });
        assert.equal(code, 0, `helm ${helm.major}, ${key}: ${stderr}`);
      }
  });
});

function keyOf({ kind, metadata: { name } }: { readonly kind: string; readonly metadata: { readonly name: string } }) {
  return `${kind} ${name}`;
}
