import { createHash } from "node:crypto";
import { defineConfig } from "vite";

/**
 * Puts script and style into the page, and forbids the page every request:
 * only this script and this style run, by their hashes.
 */
function oneFile() {
  const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
  return {
    name: "one-file",
    enforce: "post",
    generateBundle(_options, bundle) {
      const page = bundle["index.html"];
      const parts = Object.values(bundle).filter((part) => part !== page);
      // `</script` in a string of the code would end the element.
      const script = parts
        .filter((part) => part.type === "chunk")
        .map((part) => part.code.replaceAll("</script", "<\\/script"))
        .join("\n");
      const style = parts
        .filter((part) => part.type === "asset" && part.fileName.endsWith(".css"))
        .map((part) => part.source)
        .join("\n");
      const policy =
        `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; ` +
        "img-src data: blob:; base-uri 'none'; form-action 'none'";
      const meta = `<meta http-equiv="Content-Security-Policy" content="${policy}" />`;
      page.source = page.source
        .replace(/\s*<script type="module"[^>]*><\/script>/, "")
        .replace(/\s*<link rel="stylesheet"[^>]*>/, "")
        .replace(/<meta charset="utf-8" \/>/, (charset) => `${charset}\n    ${meta}`)
        .replace("</head>", () => `  <style>${style}</style>\n  </head>`)
        .replace("</body>", () => `  <script type="module">${script}</script>\n  </body>`);
      for (const part of parts) delete bundle[part.fileName];
    },
  };
}

export default defineConfig({
  plugins: [oneFile()],
  build: {
    // The folder holds a file of the repository.
    emptyOutDir: false,
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    chunkSizeWarningLimit: 2000,
  },
});
