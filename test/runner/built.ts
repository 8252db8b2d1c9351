/** Builds the server as in the image, for tests that start it many times. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";

const execute = promisify(execFile);

/**
 * Builds the server of the repository into `folder`, with its code compiled. Resolves to the program that starts it. Throws
 * with the output of a step that failed.
 *
 * @param root of the repository
 */
export async function buildServer(root: string, folder: string): Promise<string> {
  await execute(process.execPath, [join(root, "knative/image/bundle.ts"), folder], { cwd: root });
  const server = join(folder, "server");
  await execute(process.execPath, [join(folder, "compile.cjs"), server], { cwd: root });
  return join(server, "start.cjs");
}
