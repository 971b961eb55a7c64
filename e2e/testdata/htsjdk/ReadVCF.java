import htsjdk.variant.variantcontext.Genotype;
import htsjdk.variant.variantcontext.VariantContext;
import htsjdk.variant.vcf.VCFFileReader;
import htsjdk.variant.vcf.VCFHeader;
import java.nio.file.Path;

/** Reads VCF files to the last value and prints for each: records, called genotypes, phased genotypes. */
public class ReadVCF {
    public static void main(String[] paths) {
        for (String path : paths) {
            int records = 0, called = 0, phased = 0;
            try (VCFFileReader reader = new VCFFileReader(Path.of(path), false)) {
                VCFHeader header = reader.getFileHeader();
                // fullyDecode takes the type of an INFO field from the FORMAT field of the same name, such as bcftools'
                // BCSQ; what is not decoded is read as text.
                boolean decodes = header.getInfoHeaderLines().stream().noneMatch(l -> header.hasFormatLine(l.getID()));
                for (VariantContext v : reader) {
                    records++;
                    for (Genotype g : (decodes ? v.fullyDecode(header, false) : v).getGenotypes()) {
                        called += g.isCalled() ? 1 : 0;
                        phased += g.isPhased() ? 1 : 0;
                    }
                }
            }
            System.out.println(records + "\t" + called + "\t" + phased);
        }
    }
}
