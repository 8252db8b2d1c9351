/**
 * The server of the process manager: `node main.ts`, in a sidecar of the database. Exit code 2 means that a setting, a folder or
 * the certificate is wrong.
 */
import { accessSync, constants, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "../../shared/base/error-message.ts";
import { waitingTime } from "../../shared/clock/process-clock.ts";
import { ManagedProcess, type ManagerLog } from "./managed-process.ts";
import { ManagerServer, type ServedCertificate } from "./server.ts";
import { type ManagerServerSettings, readManagerSettings } from "./settings.ts";

const tickMs = 500;

const log: ManagerLog = (level, message) => console.log(JSON.stringify({ level, msg: message }));

function refuse(messages: readonly string[]): void {
  for (const message of messages) console.error(message);
  process.exitCode = 2;
}

/** Undefined where no certificate is mounted. Throws if it cannot be read. */
function readCertificate(folder: string): ServedCertificate | undefined {
  if (!existsSync(folder)) return undefined;
  const read = (name: string) => readFileSync(join(folder, name), "utf8");
  return { cert: read("tls.crt"), key: read("tls.key") };
}

/** Makes what the settings name, or explains what is wrong with it. */
function prepare(
  settings: ManagerServerSettings,
): readonly string[] | { manager: ManagedProcess; certificate: ServedCertificate | undefined } {
  const { stateFolder, filesFolder, tokenFile, certificateFolder } = settings;
  const wrong: string[] = [];
  const attempt = <T>(act: () => T, advice: string): T | undefined => {
    try {
      return act();
    } catch (error) {
      wrong.push(`${messageOf(error)}: ${advice}`);
      return undefined;
    }
  };
  const writable = (folder: string) => accessSync(folder, constants.W_OK);
  attempt(() => writable(stateFolder), "mount an emptyDir there, in both containers, and give the pod an fsGroup");
  attempt(
    () => writable(filesFolder),
    "mount an emptyDir in memory there, in both containers, and give the pod an fsGroup",
  );
  attempt(() => readFileSync(tokenFile), "mount a Secret with the key token");
  const certificate = attempt(
    () => readCertificate(certificateFolder),
    "mount a Secret with tls.crt and tls.key, or none",
  );
  const manager = attempt(() => new ManagedProcess(settings, waitingTime.monotonicMs, log), "the server cannot go on");
  return manager === undefined || wrong.length > 0 ? wrong : { manager, certificate };
}

/** Kubernetes replaces the files of a certificate. One that cannot be used leaves the old one in force. */
function followCertificate(server: ManagerServer, folder: string, served: ServedCertificate | undefined): () => void {
  let last = served;
  return () => {
    if (last === undefined) return;
    try {
      const found = readCertificate(folder);
      if (found === undefined || (found.cert === last.cert && found.key === last.key)) return;
      last = found;
      server.replaceCertificate(found);
      log("info", "the certificate was replaced");
    } catch (error) {
      log("warn", `the certificate in ${folder} cannot be used: ${messageOf(error)}`);
    }
  };
}

async function run(settings: ManagerServerSettings): Promise<void> {
  const prepared = prepare(settings);
  if (!("manager" in prepared)) return refuse(prepared);
  const { manager, certificate } = prepared;
  const stopping = new AbortController();
  for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => stopping.abort());
  const { host, port } = settings;
  let server: ManagerServer;
  try {
    server = await ManagerServer.listen({ ...settings, certificate }, manager, log);
  } catch (error) {
    return refuse([`the server cannot listen on ${host}, port ${port}: ${messageOf(error)}`]);
  }
  log("info", `listening on ${host}, port ${server.port}, ${certificate === undefined ? "without" : "with"} TLS`);
  const checkCertificate = followCertificate(server, settings.certificateFolder, certificate);
  while (!stopping.signal.aborted) {
    manager.tick();
    checkCertificate();
    await waitingTime.sleep(tickMs, stopping.signal);
  }
  await server.close();
}

// The process of the database may run as another user of the same group, and writes beside its files.
process.umask(0o007);
const settings = readManagerSettings(process.env);
if (Array.isArray(settings)) refuse(settings);
else await run(settings as ManagerServerSettings);
