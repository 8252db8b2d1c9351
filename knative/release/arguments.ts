/** The command line of `npm run release`. */
import { parseArgs } from "node:util";
import { messageOf } from "../../functions/shared/base/error-message.ts";

/** The parameters of a release. */
export interface ReleaseOrder {
  readonly version: string;
  /** The folder that gets the files. */
  readonly folder: string;
  /** Registry and name of the image; undefined: that of package.json, or else the placeholder. */
  readonly image: string | undefined;
}

/**
 * Semantic versioning, without the build metadata: the tag of an image may not have a `+`.
 * https://semver.org has the expression.
 */
const semanticVersion =
  /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-(0|[1-9]\d*|\d*[a-zA-Z-][\da-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][\da-zA-Z-]*))*)?$/;

/** Registry and path, without tag and digest. */
const imageName = /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d+)?(\/[a-z0-9]+([._-]+[a-z0-9]+)*)+$/;

const options = { dir: { type: "string" }, image: { type: "string" } } as const;

const usage = "npm run release -- VERSION --dir DIR [--image REPOSITORY]";

/** The parameters, or a message about a mistake in the command line. */
export function readReleaseOrder(argv: readonly string[]): ReleaseOrder | { readonly mistake: string } {
  let parsed: ReturnType<typeof parse>;
  try {
    parsed = parse(argv);
  } catch (error) {
    const [message = ""] = messageOf(error).split(/\. |\n/);
    return { mistake: `${message}; write ${usage}` };
  }
  const { values, positionals } = parsed;
  const [version, ...more] = positionals;
  if (version === undefined || more.length > 0)
    return { mistake: `it takes one VERSION; given: ${positionals.length}; write ${usage}` };
  if (!semanticVersion.test(version))
    return { mistake: `VERSION is ${JSON.stringify(version)}; write it as 0.2.0 or 0.2.0-rc.1, without a v before it` };
  const { dir: folder, image } = values;
  if (!folder) return { mistake: `there is no --dir; write ${usage}` };
  if (image !== undefined && !imageName.test(image))
    return { mistake: `--image is ${JSON.stringify(image)}; write REGISTRY/NAME, in lower case and without a tag` };
  return { version, folder, image };
}

function parse(argv: readonly string[]) {
  return parseArgs({ args: [...argv], options, allowPositionals: true });
}
