/**
 * A chart as Mimir's, Loki's and Tempo's are: rollout-operator's chart is a subchart of it, by the alias `rollout_operator`. The
 * subchart renders what the swap is about, with the names and labels of the operator's own chart.
 */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { dump } from "js-yaml";

const name = "{{ .Release.Name }}-rollout-operator";
const account = `{{ .Values.serviceAccount.name | default (printf "%s-rollout-operator" .Release.Name) }}`;
const labels = {
  "app.kubernetes.io/name": "rollout-operator",
  "app.kubernetes.io/instance": "{{ .Release.Name }}",
};
const rbac = "rbac.authorization.k8s.io/v1";
const subjects = [{ kind: "ServiceAccount", name: account, namespace: "{{ .Release.Namespace }}" }];
const roleRef = (kind: string, role: string) => ({ apiGroup: "rbac.authorization.k8s.io", kind, name: role });

/** What the subchart takes: what the values files of the swap set, and no more. */
const values = {
  image: { registry: "docker.io", repository: "grafana/rollout-operator", tag: "v0.37.0" },
  serviceAccount: { name: "" },
  resources: {},
  extraEnv: [],
  // Where the Service leads, and which StatefulSets have the API server ask it: none while no process answers.
  webhooks: { port: 443, asked: "never" },
};

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: { name: ${name}, labels: ${JSON.stringify(labels)} }
spec:
  replicas: 1
  strategy: { rollingUpdate: { maxSurge: 0, maxUnavailable: 1 } }
  selector: { matchLabels: ${JSON.stringify(labels)} }
  template:
    metadata: { labels: ${JSON.stringify(labels)} }
    spec:
      serviceAccountName: ${account}
      containers:
        - name: rollout-operator
          image: {{ with .Values.image.registry }}{{ . }}/{{ end }}{{ .Values.image.repository }}:{{ .Values.image.tag }}
          args:
            - -kubernetes.namespace={{ .Release.Namespace }}
            - -server-tls.enabled=true
            - -server-tls.self-signed-cert.secret-name=certificate
            - -server-tls.self-signed-cert.dns-name=${name}.{{ .Release.Namespace }}.svc
          env: {{ toYaml .Values.extraEnv | nindent 12 }}
          resources: {{ toYaml .Values.resources | nindent 12 }}
`;

/** The webhook configurations of the operator, by their names without the namespace. */
export const operatorsWebhooks = {
  "pod-eviction": { kind: "Validating", group: "", operations: ["CREATE"], resources: ["pods/eviction"] },
  "zpdb-validation": {
    kind: "Validating",
    group: "rollout-operator.grafana.com",
    operations: ["CREATE", "UPDATE"],
    resources: ["zoneawarepoddisruptionbudgets"],
  },
  "no-downscale": {
    kind: "Validating",
    group: "apps",
    operations: ["UPDATE"],
    resources: ["statefulsets", "statefulsets/scale"],
  },
  "prepare-downscale": {
    kind: "Mutating",
    group: "apps",
    operations: ["UPDATE"],
    resources: ["statefulsets", "statefulsets/scale"],
  },
} as const;

type Webhook = (typeof operatorsWebhooks)[keyof typeof operatorsWebhooks];

function webhook(called: string, { kind, group, operations, resources }: Webhook): object {
  return {
    apiVersion: "admissionregistration.k8s.io/v1",
    kind: `${kind}WebhookConfiguration`,
    metadata: {
      name: `${called}-{{ .Release.Namespace }}`,
      labels: {
        ...labels,
        "grafana.com/inject-rollout-operator-ca": "true",
        "grafana.com/namespace": "{{ .Release.Namespace }}",
      },
    },
    webhooks: [
      {
        name: `${called}-{{ .Release.Namespace }}.grafana.com`,
        clientConfig: {
          service: {
            name,
            namespace: "{{ .Release.Namespace }}",
            path: `/admission/${called}`,
            port: "{{ .Values.webhooks.port }}",
          },
        },
        rules: [{ apiGroups: [group], apiVersions: ["v1"], operations, resources, scope: "Namespaced" }],
        namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "{{ .Release.Namespace }}" } },
        objectSelector: { matchLabels: { asked: "{{ .Values.webhooks.asked }}" } },
        admissionReviewVersions: ["v1"],
        sideEffects: "None",
        failurePolicy: "Fail",
      },
    ],
  };
}

function rights(): object[] {
  const role = { apiVersion: rbac, kind: "Role", metadata: { name: `${name}-webhook-role` } };
  const clusterRole = {
    apiVersion: rbac,
    kind: "ClusterRole",
    metadata: { name: `${name}-webhook-clusterrole-{{ .Release.Namespace }}` },
  };
  const secrets = { apiGroups: [""], resources: ["secrets"] };
  const configurations = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
  return [
    { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: account } },
    {
      ...role,
      rules: [
        { ...secrets, verbs: ["update", "get"], resourceNames: ["certificate"] },
        { ...secrets, verbs: ["create"] },
      ],
    },
    { ...role, kind: "RoleBinding", roleRef: roleRef("Role", role.metadata.name), subjects },
    {
      ...clusterRole,
      rules: [
        { apiGroups: ["admissionregistration.k8s.io"], resources: configurations, verbs: ["list", "patch", "watch"] },
      ],
    },
    {
      ...clusterRole,
      kind: "ClusterRoleBinding",
      roleRef: roleRef("ClusterRole", clusterRole.metadata.name),
      subjects,
    },
  ];
}

/** Resolves to the folder of the chart. */
export async function chartWithOperator(): Promise<{ readonly folder: string; remove(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-with-operator-"));
  const subchart = join(folder, "charts/rollout-operator");
  await mkdir(join(subchart, "templates"), { recursive: true });
  const description = { apiVersion: "v2", name: "rollout-operator", version: "0.37.0" };
  await writeFile(join(subchart, "Chart.yaml"), dump(description));
  await writeFile(join(subchart, "values.yaml"), dump(values));
  const service = {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name, labels },
    spec: { type: "ExternalName", externalName: "localhost" },
  };
  const webhooks = Object.entries(operatorsWebhooks).map(([called, one]) => webhook(called, one));
  const objects = [service, ...rights(), ...webhooks].map((one) =>
    dump(one, { lineWidth: -1, noRefs: true }).replace(/port: '(\{\{[^']*)'/g, "port: $1"),
  );
  await writeFile(join(subchart, "templates/all.yaml"), [deployment, ...objects].join("---\n"));
  const alias = { ...description, repository: "", alias: "rollout_operator", condition: "rollout_operator.enabled" };
  const { apiVersion: _, ...dependency } = alias;
  const parent = { apiVersion: "v2", name: "parent", version: "1.0.0", dependencies: [dependency] };
  await writeFile(join(folder, "Chart.yaml"), dump(parent));
  await writeFile(join(folder, "values.yaml"), dump({ rollout_operator: { enabled: true } }));
  return { folder, remove: () => rm(folder, { recursive: true, force: true }) };
}
