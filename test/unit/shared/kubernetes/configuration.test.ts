import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import { promisify } from "node:util";
import { KubeConfig } from "@kubernetes/client-node/dist/config.js";
import { connect } from "../../../../functions/shared/kubernetes/client.ts";
import { isOfPod } from "../../../../functions/shared/kubernetes/configuration.ts";
import { kubeconfigText } from "../../../support/kubeconfig.ts";
import { rejection } from "../../../support/rejection.ts";
import { type Exchange, refuse, withServer } from "./server.ts";

const key = { namespace: "ns", name: "web" };
const userAgent = "sluice/0.0.0 (unit)";

describe("credentials", () => {
  test("a token", async () => {
    await withServer({ user: { token: "secret" } }, async ({ cluster, server }) => {
      await cluster.get("pods", key);
      assert.equal(server.requests[0]?.headers.authorization, "Bearer secret");
    });
  });

  test("user name and password", async () => {
    await withServer({ user: { username: "tom", password: "pw" } }, async ({ cluster, server }) => {
      await cluster.get("pods", key);
      const expected = `Basic ${Buffer.from("tom:pw").toString("base64")}`;
      assert.equal(server.requests[0]?.headers.authorization, expected);
    });
  });

  test("a token file", async () => {
    await withServer({}, async ({ kubeconfig, server }) => {
      const tokenFile = join(dirname(kubeconfig), "token");
      await writeFile(tokenFile, "from-file\n");
      const user = { "auth-provider": { name: "tokenFile", config: { tokenFile } } };
      await writeFile(kubeconfig, kubeconfigText(server.url, user));
      const cluster = await connect({ userAgent, kubeconfig });
      await cluster.get("pods", key);
      assert.equal(server.requests[0]?.headers.authorization, "Bearer from-file");
      await cluster.close();
    });
  });

  test("an exec plugin runs once for many calls, and its failure is reported with its name", async () => {
    await withServer({}, async ({ kubeconfig, server }) => {
      const log = join(dirname(kubeconfig), "runs");
      const answer = { apiVersion: "client.authentication.k8s.io/v1", status: { token: "from-plugin" } };
      const script = `require("fs").appendFileSync(${JSON.stringify(log)}, "x"); console.log('${JSON.stringify(answer)}')`;
      const user = { exec: { command: process.execPath, args: ["-e", script] } };
      await writeFile(kubeconfig, kubeconfigText(server.url, user));
      const cluster = await connect({ userAgent, kubeconfig });
      await Promise.all([1, 2, 3].map(() => cluster.get("pods", key)));
      assert.equal(server.requests[0]?.headers.authorization, "Bearer from-plugin");
      assert.equal(await readFile(log, "utf8"), "x");
      await cluster.close();

      const failing = {
        exec: { command: process.execPath, args: ["-e", "console.error('no such user'); process.exit(1)"] },
      };
      await writeFile(kubeconfig, kubeconfigText(server.url, failing));
      const unhappy = await connect({ userAgent, kubeconfig });
      const error = await rejection(unhappy.get("pods", key));
      assert.deepEqual([error.code, error.reason], [0, "NoCredentials"]);
      assert.match(error.message, /no such user/);
      await unhappy.close();
    });
  });

  test("an impersonated user", async () => {
    await withServer({}, async ({ kubeconfig, server }) => {
      await writeFile(kubeconfig, kubeconfigText(server.url, { token: "t", as: "someone" }));
      const cluster = await connect({ userAgent, kubeconfig });
      await cluster.get("pods", key);
      assert.equal(server.requests[0]?.headers["impersonate-user"], "someone");
      await cluster.close();
    });
  });

  /** Answers 401 to every token but the newest one that was issued. */
  const accepting =
    (token: () => string) =>
    (exchange: Exchange): void => {
      if (exchange.request.headers.authorization === `Bearer ${token()}`) exchange.response.end("{}");
      else refuse(exchange, 401, "Unauthorized");
    };

  test("a token file that was renewed a moment ago is read again after a 401, and the call succeeds", async () => {
    await withServer({}, async ({ kubeconfig, server }) => {
      const tokenFile = join(dirname(kubeconfig), "token");
      await writeFile(tokenFile, "one");
      const user = { "auth-provider": { name: "tokenFile", config: { tokenFile } } };
      await writeFile(kubeconfig, kubeconfigText(server.url, user));
      const cluster = await connect({ userAgent, kubeconfig });
      server.answer(accepting(() => "one"));
      await cluster.get("pods", key);
      await writeFile(tokenFile, "two");
      server.answer(accepting(() => "two"));
      await Promise.all([1, 2, 3].map(() => cluster.create("leases", "ns", {})));
      const sent = server.requests.map(({ headers }) => headers.authorization);
      assert.equal(sent.filter((authorization) => authorization === "Bearer two").length, 3);
      await cluster.close();
    });
  });

  test("a plugin whose token was refused before its expiry runs again, once for many calls", async () => {
    await withServer({}, async ({ kubeconfig, server }) => {
      const log = join(dirname(kubeconfig), "runs");
      const script = `const { appendFileSync, readFileSync } = require("fs"); appendFileSync(${JSON.stringify(log)}, "x");
        const token = "token-" + readFileSync(${JSON.stringify(log)}, "utf8").length;
        console.log(JSON.stringify({ apiVersion: "client.authentication.k8s.io/v1", status: { token } }))`;
      const user = { exec: { command: process.execPath, args: ["-e", script] } };
      await writeFile(kubeconfig, kubeconfigText(server.url, user));
      const cluster = await connect({ userAgent, kubeconfig });
      server.answer(accepting(() => "token-2"));
      await Promise.all([1, 2, 3, 4].map(() => cluster.get("pods", key)));
      assert.equal(await readFile(log, "utf8"), "xx");
      await cluster.close();
    });
  });

  test("refused credentials are read once more", async () => {
    await withServer({ user: { token: "old" } }, async ({ cluster, server }) => {
      server.answer((exchange) => refuse(exchange, 401, "Unauthorized"));
      assert.equal((await rejection(cluster.get("pods", key))).code, 401);
      assert.equal(server.requests.length, 2);
    });
  });
});

describe("configuration", () => {
  test("the namespace is that of the context, or otherwise default", async () => {
    await withServer({}, async ({ cluster, kubeconfig, server }) => {
      assert.equal(cluster.namespace, "default");
      await writeFile(kubeconfig, kubeconfigText(server.url, {}, "mimir"));
      const other = await connect({ userAgent, kubeconfig });
      assert.equal(other.namespace, "mimir");
    });
  });

  test("a pod's service account is recognised, and a kubeconfig is not taken for one", async () => {
    const { KubeConfig } = await import("@kubernetes/client-node");
    const ofPod = new KubeConfig();
    ofPod.loadFromCluster("/nowhere");
    assert.equal(isOfPod(ofPod), true);
    const ofFile = new KubeConfig();
    ofFile.loadFromString(kubeconfigText("https://127.0.0.1:1", {}, "mimir"));
    assert.equal(isOfPod(ofFile), false);
  });

  test("a server behind a path", async () => {
    await withServer({}, async ({ kubeconfig, server }) => {
      await writeFile(kubeconfig, kubeconfigText(`${server.url}/k8s/clusters/c-1/`, {}));
      const cluster = await connect({ userAgent, kubeconfig });
      await cluster.get("pods", key);
      assert.equal(server.requests[0]?.url, "/k8s/clusters/c-1/api/v1/namespaces/ns/pods/web");
      await cluster.close();
    });
  });

  test("plain HTTP to another machine is refused, because it would expose the credentials", async () => {
    await withServer({}, async ({ kubeconfig }) => {
      await writeFile(kubeconfig, kubeconfigText("http://198.51.100.1:8080", { token: "secret" }));
      const cluster = await connect({ userAgent, kubeconfig });
      const error = await rejection(cluster.get("pods", key));
      assert.deepEqual([error.code, error.reason], [0, "NoCredentials"]);
      await cluster.close();
    });
  });

  test("a missing file, a context without a cluster and a missing kubeconfig are reported plainly", async () => {
    await assert.rejects(connect({ userAgent, kubeconfig: "/nonexistent/kubeconfig" }), /ENOENT.*kubeconfig/);
    await withServer({}, async ({ kubeconfig }) => {
      await writeFile(kubeconfig, JSON.stringify({ apiVersion: "v1", kind: "Config", "current-context": "gone" }));
      await assert.rejects(connect({ userAgent, kubeconfig }), /context "gone" names no cluster/);
      const module = join(import.meta.dirname, "../../../../functions/shared/kubernetes/client.ts");
      const script = `const { connect } = await import(${JSON.stringify(module)});
        await connect({ userAgent: "x" }).catch((error) => console.log(error.message));`;
      const env = { PATH: process.env.PATH ?? "", HOME: dirname(kubeconfig) };
      const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script], { env });
      assert.match(stdout, /no kubeconfig/);
    });
  });

  test("client-node is loaded without its generated API", async () => {
    const module = join(import.meta.dirname, "../../../../functions/shared/kubernetes/client.ts");
    const script = `import { registerHooks } from "node:module";
      let loaded = 0;
      registerHooks({ load(url, context, next) {
        if (url.includes("/@kubernetes/client-node/dist/gen/models/")) loaded += 1;
        return next(url, context);
      } });
      const { connect } = await import(${JSON.stringify(module)});
      await connect({ userAgent: "x" }).catch(() => {});
      console.log(loaded);`;
    const env = { PATH: process.env.PATH ?? "", HOME: "/nonexistent" };
    const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script], { env });
    assert.equal(stdout.trim(), "0");
  });
});

test("a pod's own account is not a kubeconfig's", async () => {
  const ofPod = new KubeConfig();
  ofPod.loadFromCluster();
  assert.ok(isOfPod(ofPod));
  await withServer({ user: { token: "secret" } }, async ({ cluster }) => assert.ok(!cluster.isInPod));
});
