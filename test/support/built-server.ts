/** The server as in the image: bundles with compiled code. */
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const execute = promisify(execFile);
const bundle = join(import.meta.dirname, "../../knative/image/bundle.ts");

export interface BuiltServer {
  /** Path of the built `start.cjs`. */
  readonly program: string;
  remove(): Promise<void>;
}

/**
 * Does what the Dockerfile does, in a temporary folder. If `npm test` has already built the server, returns that build, which
 * stays. Rejects with the output of a step that failed.
 */
export async function buildServer(): Promise<BuiltServer> {
  const built = process.env.SLUICE_TEST_SERVER;
  if (built !== undefined) return { program: built, remove: async () => {} };
  const folder = await mkdtemp(join(tmpdir(), "sluice-server-"));
  const server = join(folder, "server");
  await execute(process.execPath, [bundle, folder]);
  await execute(process.execPath, [join(folder, "compile.cjs"), server]);
  return { program: join(server, "start.cjs"), remove: () => rm(folder, { recursive: true, force: true }) };
}
