/** How the chart leaves: nothing goes while Sluice alone can take a finalizer off, and afterwards nothing is in the way. */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { loadAll } from "js-yaml";
import { presets, table } from "../../triggers/table.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { auditPosition } from "../controlplane/audit.ts";
import {
  askForFinalizers,
  deleteFinalized,
  finalizedGone,
  nothingInTheWay,
  readAway,
  refusalsOf,
  serveInstalled,
} from "../support/away.ts";
import { chart, Helm, isHook, skipWithoutHelm, someImage } from "../support/helm.ts";
import { askedBy } from "../support/installed.ts";
import { type Built, Kubectl } from "../support/kubectl.ts";
import { play, skipWithoutControlPlane } from "../support/scene.ts";
import { playHook } from "./hook.ts";
import { checkThroughProxy, createFinalizedClaim, playSubchart, serveOutside } from "./leaving.ts";
import { type ChartStage, startChartStage } from "./stage.ts";

interface Variable {
  readonly name: string;
  readonly value: string;
}

interface Pod {
  readonly metadata: { readonly labels: Readonly<Record<string, string>> };
  readonly spec: {
    readonly serviceAccountName: string;
    readonly securityContext: object;
    readonly containers: readonly { readonly env: readonly Variable[]; readonly [field: string]: unknown }[];
  };
}

interface Workload extends Built {
  readonly metadata: Built["metadata"] & { readonly annotations?: Readonly<Record<string, string>> };
  readonly spec: { readonly template: Pod; readonly selector?: unknown };
}

suite("the hook before an uninstall", { skip: await skipWithoutHelm() }, () => {
  let opened: Awaited<ReturnType<typeof Helm.open>>;
  before(async () => {
    opened = await Helm.open();
  });
  after(() => opened?.close());
  const render = async (values: object) => {
    const [helm = assert.fail()] = opened.helms;
    return (await helm.render({ ...someImage, ...values })) as readonly unknown[] as readonly Workload[];
  };
  const of = (objects: readonly Workload[], kind: string) =>
    objects.find((one) => one.kind === kind) ?? assert.fail(`no ${kind}`);

  test("it is there for the functions that put finalizers on objects, and for no others", async () => {
    const keeping = table.filter(({ finalizers = [] }) => finalizers.length > 0).map(({ name }) => name);
    assert.ok(keeping.length >= 3);
    const choices = [["rollout-operator"], ["release-namespace"], ...keeping.map((name) => [name])];
    for (const functions of [...choices, ...Object.keys(presets).map((preset) => [preset])]) {
      const chosen = functions.flatMap((name) => presets[name]?.map((one) => one.name) ?? [name]);
      const hooks = (await render({ functions }))
        .filter(isHook)
        .map(({ kind, metadata }) => `${kind} ${metadata.name}`);
      const expected = chosen.some((name) => keeping.includes(name)) ? ["Job sluice-check-uninstall"] : [];
      assert.deepEqual(hooks, expected, functions.join());
    }
  });

  test("it runs as the replicas do, with their settings, and answers no reviews", async () => {
    const values = { functions: ["rabbitmq"], settings: { SKIP_LABEL_KINDS: "Broker.example.com" } };
    const more = { extraArgs: ["-kubernetes.namespace=loki"], podLabels: { a: "b" }, priorityClassName: "high" };
    const objects = await render({ ...values, ...more });
    const [job, deployment] = [of(objects, "Job"), of(objects, "Deployment")];
    assert.equal(job.metadata.annotations?.["helm.sh/hook"], "pre-delete");
    assert.equal(job.metadata.annotations?.["helm.sh/hook-delete-policy"], "before-hook-creation,hook-succeeded");
    const [check, replica] = [job.spec.template, deployment.spec.template];
    const [[checking = assert.fail()], [serving = assert.fail()]] = [check.spec.containers, replica.spec.containers];
    for (const field of ["image", "imagePullPolicy", "env", "resources", "securityContext"])
      assert.deepEqual(checking[field], serving[field], field);
    assert.deepEqual(checking.args, ["--check-uninstall", "-kubernetes.namespace=loki"]);
    const { containers: _, restartPolicy, ...pod } = check.spec as Pod["spec"] & { restartPolicy?: string };
    const {
      containers: _own,
      terminationGracePeriodSeconds: _seconds,
      ...replicaPod
    } = replica.spec as never as {
      readonly containers: object;
      readonly terminationGracePeriodSeconds: number;
    };
    assert.deepEqual(pod, replicaPod);
    assert.equal(restartPolicy, "Never");
    const { labels } = check.metadata;
    assert.equal(labels.a, "b");
    const { spec } = of(objects, "Service") as never as { readonly spec: { readonly selector: object } };
    assert.ok(
      Object.entries(spec.selector).some(([key, value]) => labels[key] !== value),
      "no review comes to it",
    );
  });

  test("uninstall.prepare makes the settings of the chosen functions, for the replicas and for the hook", async () => {
    const made = async (functions: readonly string[], more: object = {}) => {
      const objects = await render({ functions, uninstall: { prepare: true }, ...more });
      const pods = objects.filter(({ kind }) => ["Job", "Deployment"].includes(kind));
      return pods.map(({ spec }) =>
        Object.fromEntries(
          spec.template.spec.containers
            .flatMap(({ env }) => env)
            .filter(({ name }) => /^(VOLUME_HOLD|SKIP_LABEL_FINALIZER)$/.test(name))
            .map(({ name, value }) => [name, value]),
        ),
      );
    };
    const [label, volume] = [{ SKIP_LABEL_FINALIZER: "remove" }, { VOLUME_HOLD: "remove" }];
    assert.deepEqual(await made(["rollout-operator"]), [{}]);
    assert.deepEqual(await made(["rabbitmq"]), [label, label]);
    for (const name of ["suspension", "foundationdb", "gc-suspended-groups"])
      assert.deepEqual(await made([name]), [volume, volume], name);
    const both = { ...label, ...volume };
    assert.deepEqual(await made(["rabbitmq", "suspension"], { settings: { VOLUME_HOLD: "" } }), [both, both]);
    assert.deepEqual(await made(["rabbitmq", "suspension"], { uninstall: { prepare: false } }), [{}, {}]);
  });

  test("uninstall.prepare has the fence refuse new finalizers, and one validation of one policy is all that it adds", async () => {
    const validationsOf = async (prepare: boolean) => {
      const objects = await render({ functions: ["suspension"], uninstall: { prepare } });
      const policies = objects.filter(
        ({ kind }) => kind === "ValidatingAdmissionPolicy",
      ) as readonly Built[] as readonly (Built & {
        readonly spec: { readonly validations: readonly { readonly message: string }[] };
      })[];
      return policies.flatMap(({ metadata: { name }, spec }) =>
        spec.validations.map(({ message }) => `${name}: ${message}`),
      );
    };
    const [without, prepared] = await Promise.all([validationsOf(false), validationsOf(true)]);
    assert.deepEqual(
      prepared.filter((one) => !without.includes(one)),
      ["sluice-fence-objects.mimir: uninstall.prepare is true, so that Sluice adds no finalizer"],
    );
    assert.equal(prepared.length, without.length + 1);
  });
});

suite("the chart leaves the real API server", {
  skip: (await skipWithoutControlPlane()) || (await skipWithoutHelm()),
}, () => {
  let stage: ChartStage;
  let kubectl: Kubectl;
  before(async () => {
    stage = await startChartStage();
    kubectl = await Kubectl.open(stage.controlPlane);
  });
  after(async () => {
    await kubectl?.close();
    await stage?.stop();
  });

  test("what a lost release leaves, such as that of a deleted namespace, is deleted or named by the chapter Away with it", async () => {
    const [helm = assert.fail()] = stage.helms;
    const watched = { serviceMonitor: { enabled: true }, monitoring: { alerts: true, dashboard: true } };
    const objects = await helm.render({ ...someImage, ...watched, functions: Object.keys(presets) });
    const { isDeleted, isNamed } = await readAway(kubectl, "mimir");
    const wrong = objects.filter((object) => !isHook(object) && isDeleted(object) === isNamed(object));
    assert.deepEqual(
      wrong.map(({ kind, metadata: { name } }) => `${kind} ${name}`),
      [],
    );
    // Its own time takes the Job away.
    assert.ok(objects.filter(isHook).every((job) => JSON.stringify(job).includes('"ttlSecondsAfterFinished":')));
  });

  test("Helm's record goes with its namespace, and the chapter Away with it deletes what the release had outside of it", async () => {
    const [helm = assert.fail()] = stage.helms;
    const namespace = "leave-lost";
    const place = ["--namespace", namespace];
    const values = await helm.values({ ...someImage, functions: Object.keys(presets) });
    await helm.run("install", "sluice", chart, ...place, "--create-namespace", ...values);
    const installed = loadAll(await helm.run("get", "manifest", "sluice", ...place)) as Built[];
    await kubectl.run("delete", "namespace", namespace);
    assert.match((await helm.try("uninstall", "sluice", ...place)).stderr, /not found/);
    const left = await kubectl.existing(installed);
    assert.ok(left.some(({ kind }) => kind === "MutatingWebhookConfiguration") && left.length > 10);
    const { commands } = await readAway(kubectl, namespace);
    const deletions = commands.filter((command) => / delete |xargs/.test(command));
    // No CRDs of Knative or of prometheus-operator are here.
    for (const command of deletions.filter((one) => !/ksvc|servicemonitor/.test(one))) await kubectl.shell(command);
    assert.deepEqual(await kubectl.existing(installed), []);
  });

  for (const major of ["4", "3"])
    test(`Helm ${major} deletes nothing while a finalizer is left, and all when uninstall.prepare has taken it off`, async (context) => {
      const helm = stage.helmOf(major);
      const namespace = `leave-${major}`;
      const place = ["--namespace", namespace];
      const [prepare, uninstall, ledgers, , , rollback] = await kubectl.commandsOf("chart/README.md", "Uninstall");
      const type = (line = "") => {
        const [program, ...args] = line.replaceAll("mimir", namespace).replace("REVISION", "1").split(" ");
        assert.equal(program, "helm");
        return helm.try(...args.map((arg) => (arg === "sluice/knative/chart" ? chart : arg)));
      };
      await play(stage.controlPlane, namespace, { zones: 2, pods: 2 }, async (scene) => {
        const { api } = scene;
        const from = await auditPosition(stage.controlPlane.auditLog);
        const values = await helm.values({ ...someImage, functions: Object.keys(presets) });
        const notes = await helm.run("install", "sluice", chart, ...place, ...values);
        assert.match(
          notes,
          /set uninstall\.prepare=true before you\nuninstall Sluice, .*\n.*\n\n.*\n.*--check-uninstall$/m,
        );
        const installed = loadAll(await helm.run("get", "manifest", "sluice", ...place)) as Built[];
        const first = await serveInstalled(scene);
        await askForFinalizers(scene);
        const uids = new Set<string>();
        const [refused, found] = await Promise.all([
          type(uninstall),
          playHook(stage.controlPlane, api, namespace, uids),
        ]);
        assert.deepEqual([refused.code, found.code], [1, 1], refused.stderr);
        for (const left of [`statefulsets ${namespace}-zone-a`, "persistentvolumeclaims data-gone-0"])
          assert.match(found.stderr, new RegExp(`${left} in ${namespace} has sluice\\.dev/.*=remove takes off`));
        assert.match(found.stderr, /set uninstall\.prepare=true in the chart/);
        assert.deepEqual(await kubectl.existing(installed), installed, "nothing is deleted");
        assert.match((await type(prepare)).stderr, /has no deployed releases/);
        assert.equal((await type(rollback)).code, 0);
        const prepared = await type(prepare);
        assert.equal(prepared.code, 0, prepared.stderr);
        assert.match(prepared.stdout, /Because uninstall\.prepare is true, .*\n.*\n\n.*\n.*--check-uninstall$/m);
        await first.stop();
        const { forbidden } = await askedBy(stage.controlPlane, from, namespace, "sluice");
        assert.deepEqual(forbidden, [], "the check needs no right that the functions have not");
        const began = performance.now();
        // The replicas of the upgrade begin only when the check waits for them.
        const begin = async () => void (await serveInstalled(scene));
        const hook = playHook(stage.controlPlane, api, namespace, uids, begin);
        const [gone, checked] = await Promise.all([type(uninstall), hook]);
        assert.deepEqual([gone.code, checked.code], [0, 0], gone.stderr + checked.stderr);
        const took = (performance.now() - began) / 1_000;
        context.diagnostic(`the uninstall took ${took.toFixed(1)} s`);
        assert.ok(took < 120);
        assert.deepEqual(await kubectl.existing(installed), []);
        await kubectl.shell((ledgers ?? "").replaceAll("mimir", namespace));
        await nothingInTheWay(scene);
        assert.match((await type(uninstall)).stderr, /not found/);
        assert.equal((await type(`${uninstall} --ignore-not-found`)).code, 0);
      });
    });

  test("Helm 4: a subchart under an alias that is prepared and then disabled leaves nothing in the way, though an old replica still runs", () =>
    playSubchart(
      { controlPlane: stage.controlPlane, kubectl },
      stage.helmOf("4"),
      "operator",
      async ({ scene, old, type, check }) => {
        await type("prepare");
        const [, checked] = await Promise.all([serveInstalled(scene), check()]);
        assert.deepEqual([checked.code, checked.stderr], [0, ""]);
        await eventually("the old replica refused", 30_000, async () =>
          old.log.some((line) => JSON.stringify(line).includes("Sluice adds no finalizer")) ? true : undefined,
        );
        await type("disable");
        await nothingInTheWay(scene);
      },
    ));

  test("Helm 3: a subchart that is disabled unprepared holds no downscale and no eviction, and frees what it holds when it is enabled again", () =>
    playSubchart(
      { controlPlane: stage.controlPlane, kubectl },
      stage.helmOf("3"),
      undefined,
      async ({ scene, old, type, check, manifest }) => {
        await old.stop();
        await type("disable");
        assert.deepEqual(await refusalsOf(scene), []);
        const blocking = await deleteFinalized(scene);
        assert.deepEqual([...blocking].sort(), ["sluice.dev/release-prestop", "sluice.dev/volume-hold"]);
        await type("enable");
        const [checked] = await Promise.all([check(), serveInstalled(scene)]);
        assert.deepEqual([checked.code, checked.stderr], [0, ""]);
        await finalizedGone(scene);
        await type("disable");
        assert.doesNotMatch(await manifest(), /WebhookConfiguration/);
      },
    ));

  test("a deleted namespace hangs on finalizers without Sluice, its release says so before an uninstall, and the overlay outside ends both", async (context) => {
    const [helm = assert.fail()] = stage.helms;
    const [own, ended] = ["leave-host", "leave-ended"];
    const place = ["--namespace", own];
    const api = await Api.open(stage.controlPlane, { userAgent: "sluice-test-leave" });
    context.after(() => api.close());
    for (const name of [own, ended]) await api.post("/api/v1/namespaces", { metadata: { name } });
    const values = await helm.values({ ...someImage, functions: Object.keys(presets), namespaces: [own, ended] });
    await helm.run("install", "sluice", chart, ...place, ...values);
    await createFinalizedClaim(api, ended);
    await kubectl.run("delete", "namespace", ended, "--wait=false");
    const [show = "", ...install] = (await kubectl.commandsOf("README.md", "When the namespace is deleted")).map(
      (line) => line.replaceAll("mimir", ended),
    );
    await eventually("the namespace hanging", 60_000, async () =>
      (await kubectl.shell(show)).includes("sluice.dev/volume-hold in 1 resource instances") ? true : undefined,
    );
    const from = await auditPosition(stage.controlPlane.auditLog);
    const begin = async () => {
      await eventually("the right gone", 30_000, async () =>
        (await askedBy(stage.controlPlane, from, own, "sluice")).forbidden.length > 0 ? true : undefined,
      );
      const outside = await serveOutside({ controlPlane: stage.controlPlane, kubectl }, api, install);
      context.after(() => outside.stop());
    };
    const hook = playHook(stage.controlPlane, api, own, new Set(), begin);
    const [gone, checked] = await Promise.all([helm.try("uninstall", "sluice", ...place), hook]);
    assert.deepEqual([gone.code, checked.code], [0, 0], gone.stderr + checked.stderr);
    assert.equal(checked.stdout, `no object of namespace ${own}, ${ended} has a finalizer of Sluice\n`);
    assert.equal(await kubectl.run("get", "namespace", ended, "--ignore-not-found"), "");
  });

  test("the check waits while the API server is away, and then says what is there and what is not", async (context) => {
    const api = await Api.open(stage.controlPlane, { userAgent: "sluice-test-leave" });
    context.after(() => api.close());
    const [kept, free] = ["leave-away-kept", "leave-away-free"];
    for (const name of [kept, free]) await api.post("/api/v1/namespaces", { metadata: { name } });
    await createFinalizedClaim(api, kept);
    await stage.controlPlane.stopApiServer();
    const checks = await Promise.all([kept, free].map((name) => checkThroughProxy(stage.controlPlane, name)));
    context.after(() => Promise.all(checks.map(({ proxy }) => proxy.close())));
    for (const { proxy } of checks)
      await eventually("an API server looked for in vain", 30_000, async () =>
        proxy.connections > 2 ? true : undefined,
      );
    assert.deepEqual(
      checks.map(({ launched }) => launched.end()),
      [undefined, undefined],
    );
    await stage.controlPlane.startApiServer();
    const ends = await Promise.all(checks.map(({ launched }) => launched.ended));
    assert.deepEqual(
      ends.map(({ code }) => code),
      [1, 0],
    );
    const [left, clear] = checks.map(({ launched }) => launched.printed());
    assert.match(
      left?.stderr ?? "",
      /persistentvolumeclaims data-gone-0 in leave-away-kept has sluice\.dev\/volume-hold/,
    );
    assert.equal(clear?.stdout, `no object of namespace ${free} has a finalizer of Sluice\n`);
  });
});
