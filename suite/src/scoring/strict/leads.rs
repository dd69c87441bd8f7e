//! Phrases that say "the answer follows", and those that say "what stands before is the answer", by language.

use std::sync::LazyLock;

use regex::Regex;

use super::reply::regex;

/// A phrase in front of an answer.
pub(super) struct Lead {
    pub pattern: Regex,
    pub strength: Strength,
}

/// How much a phrase says by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strength {
    /// `the answer is`: what follows is an answer, a letter or the text of an option.
    Strong,
    /// `so`, `it must be`: a letter counts where its sentence ends, or with its own text behind it.
    Weak,
    /// `is`: a letter counts with its own text behind it.
    Label,
}

use Strength::{Label, Strong, Weak};

/// Words between the phrase and the answer.
const FILLERS: &str = r"(?:(?:(?:therefore|thus|hence|then|so|now|clearly|most likely|likely|probably|definitely|certainly|indeed|simply|actually|still|option|choice|letter|answer|number|the correct answer is|c'est|it is|it's|es ist|the one that says|the one|in|given by|labell?ed|as follows|follows|would be|is|be)\b|选项|選項|选|選|:|-|–|—)[\s:,]*)*";

/// All phrases. `(?i)` is theirs alone: letters are compared with their case afterwards.
pub(super) static LEADS: LazyLock<Vec<Lead>> = LazyLock::new(|| {
    let lead = |strength, pattern: &str| Lead { pattern: regex(&format!("(?i){pattern}")), strength };
    let is = r"(?:(?:is|was|are|(?:would|should|must)(?: therefore| thus| then| hence| so| clearly| most likely)? be|would have to be|has to be|will be|can only be|might be|may be|could be|appears to be|seems to be|remains|stays(?: at| with)?|becomes)\b|=|:|->|→|⇒|=>|--?|–|—)";
    let adverb = r"(?:,?\s*(?:therefore|thus|then|hence|so|clearly|most likely|most probably|likely|probably|definitely|certainly|actually|indeed|simply|also|still|here|now|of course|in this case)\b\s*,?\s*)*";
    let of = r"(?:\s+(?:to|for|of|from|among|that|which|you)\b[^.\n:]{0,80}?)?";
    vec![
        lead(
            Strong,
            &format!(
                r"\b(?:answers?|choice|option|selection|response|conclusion|verdict|ans|pick|guess|match|statement|description)\b\.?(?:\s*\((?:final|letter|option|choice)\))?{of}\s*{adverb}\s*{is}\s*{adverb}{FILLERS}"
            ),
        ),
        lead(
            Strong,
            &format!(
                r"\b(?:I|we)(?:\s+|'d\s+|'ll\s+|'m\s+)(?:(?:would|will|must|can|have to|am|are|going to|shall|therefore|thus|also|definitely|firmly|confidently|hereby|still|finally|would therefore)\s+)*(?:choose|chose|pick|picked|select|selected|choosing|go(?:ing)? with|opt(?:ing)? for|settle(?:d)? (?:on|for)|vote for|answer(?:ed)?|pick(?:ing)?|conclude(?: that)?)\b\s*(?:it is|it's|that|the answer is|for)?\s*{FILLERS}"
            ),
        ),
        lead(
            Strong,
            r"\b(?:chang|switch|revis|updat|correct|amend)(?:e|ing|ed)?\s+(?:my|the)\s+(?:final\s+)?(?:answer|choice|selection)\s*(?:to|:)\s*(?:option|choice|letter|be|:|\s)*",
        ),
        lead(
            Weak,
            r"\b(?:I|we)(?:\s+|'d\s+)(?:would\s+|am\s+)?(?:say|believe|think|guess|lean towards?|leaning towards?|feel)\b\s*(?:it is|it's|it must be|that it is|that)?\s*(?:option|answer|choice|letter)?\s*",
        ),
        lead(
            Weak,
            &format!(
                r"\b(?:it|this|that)(?:'s|\s+is|\s+was|\s+must\s+be|\s+has\s+to\s+be|\s+should\s+be|\s+would\s+be|\s+can\s+only\s+be|\s+leaves(?:\s+us)?(?:\s+with)?)\s+{adverb}(?:only\s+)?(?:option|answer|choice|letter)?\s*"
            ),
        ),
        lead(
            Weak,
            r"(?:^|[.!?\n…]\s*|,\s*)(?:and\s+)?(?:therefore|thus|hence|so|finally|overall|by elimination|in conclusion|conclusion|consequently|accordingly|ergo|in short|in summary|en resumen|en conclusión|así que|en résumé|en conclusion|zusammenfassend|insomma|em resumo|в итоге|final|ok|okay|yes|sure|definitely|probably|actually|correction|no|rather)\b\s*[,:]?\s*(?:(?:it is|it's|it must be|that's|I choose|I pick)\s+)?(?:option|answer|choice|letter)?\s*",
        ),
        lead(
            Weak,
            r"\b(?:left with|leaving|leaves|points? to|matches|corresponds? to|correspond (?:donc |ainsi )?à|selected?|choose|pick|select|going with|go with)\s+(?:us with\s+|only\s+)?(?:la\s+)?(?:option|answer|choice|letter|proposition|réponse)?\s*",
        ),
        lead(
            Weak,
            r"(?:\bwhich|\bthat|\bi\.e\.,?|\bmeaning|\bmaking it)\s*(?:is|was|would be|corresponds to|matches|means|makes)?\s*(?:answer\s+)?(?:option|choice|answer)\s*",
        ),
        lead(
            Weak,
            r"(?m)(?:^|[.!?]\s+)(?:my\s+|final\s+)*(?:decision|prediction|correct|solution|result|selected|final|output|verdict|label|letter)\s*[:=]\s*",
        ),
        // What is said to be a label with its own text.
        lead(
            Label,
            &format!(r"\b(?:is|are|was|were|would be|represents|shows|depicts)(?:\s+|\s*:\s*){adverb}"),
        ),
        // A noun alone, where the letter ends the sentence.
        lead(
            Weak,
            r"(?:^|[:;,.，。、：]\s*|\b(?:so|thus|hence|therefore|bleibt nur|bleibt|donc|also)\s+)(?:the\s+|la\s+|die\s+)?(?:answer|réponse|antwort|antwortmöglichkeit|respuesta|resposta|risposta|opzione|ответ|答案|选项|選項|選択肢|gabarito)\s+",
        ),
        lead(Strong, r"\bgabarito\s*:\s*"),
        lead(
            Weak,
            r"(?:^|[,.;:!?…\n—–-]\s*)(?:sorry,?\s+)?(?:I mean|I meant|no,? wait|my mistake)[\s,:]*(?:it is|it's)?\s*(?:option\s+)?",
        ),
        lead(
            Weak,
            r"\b(?:ist|est|es|è|é)\s+(?:die|la|a)\s+(?:(?:richtige|korrekte|bonne)\s+)?(?:antwort|réponse|respuesta|resposta|risposta)\s+",
        ),
        lead(Weak, r"我(?:认为|觉得|想|猜)?(?:应该)?是\s*"),
        lead(Strong, r"\b(?:what|all that) (?:remains|is left) (?:is|are)\s+(?:option\s+)?"),
        lead(Strong, r"\bbleibt\s+(?:damit\s+|somit\s+|also\s+)?(?:nur\s+)?(?:noch\s+)?"),
        lead(
            Strong,
            r"\b(?:best|most likely|most probable|most appropriate|most plausible)\s+[^.\n:,]{0,80}?\b(?:is|are|was|would be)\s+(?:most likely\s+|likely\s+|probably\s+)?",
        ),
        lead(Strong, r"\b(?:doğru (?:cevap|yanıt|seçenek)\s*:?|(?:cevap|yanıt)\s*:)\s*"),
        // Dutch, Swedish, Danish, Norwegian, Finnish
        lead(
            Strong,
            r"\b(?:antwoord|svar(?:et)?|vastaus)(?:\s+(?:is|är|er|on)\b|\s*[:=])+\s*(?:dus|alltså|altså|optie|alternativ|vaihtoehto|:|\s)*",
        ),
        // Polish, Czech, Slovak, Ukrainian, Romanian, Hungarian, Greek
        lead(
            Strong,
            r"\b(?:odpowiedź|odpověď|odpoveď|відповідь|răspuns(?:ul)?|válasz|απάντηση)(?:\s+(?:corect|final))?(?:\s+(?:to|jest|brzmi|je|це|este|είναι)\b|\s*[:=–—-])+\s*(?:opcja|litera|varianta|варіант|az?|η|το|:|\s)*",
        ),
        // Hebrew, Persian, Thai, Bengali, Tamil
        lead(Strong, r"תשובה(?:\s+הנכונה)?\s*(?:היא|:)\s*"),
        lead(Strong, r"(?:پاسخ|جواب)(?:\s+(?:صحیح|درست|نهایی|گزینه|است))*\s*:?\s*"),
        lead(Strong, r"คำตอบ(?:ที่ถูกต้อง|ที่ถูก|สุดท้าย)?\s*(?:คือ|:)\s*(?:ข้อ|ตัวเลือก|:)*\s*"),
        lead(Strong, r"উত্তর\s*(?:হলো|হল|হচ্ছে|:)\s*|விடை\s*:\s*"),
        lead(Strong, r"\bđáp án (?:đúng |chính xác )?(?:là|:)\s*"),
        // Indonesian, Malay
        lead(Weak, r"\bjawabannya\s+"),
        lead(
            Strong,
            r"\b(?:(?:jawab|jawap|pilih)an(?:nya|\s+saya)?(?:\s+(?:(?:yang\s+)?(?:paling\s+)?(?:benar|tepat|betul|sesuai|akhir)(?:nya)?))?|yang\s+(?:paling\s+)?(?:benar|tepat|betul|sesuai))\s*(?:adalah|ialah|yaitu|:|=)+\s*(?:opsi|pilihan|jawaban|huruf|:|,|\s)*",
        ),
        // Arabic, Hindi
        lead(
            Strong,
            r"(?:الإجابة|الاجابة|الجواب|الخيار)(?:\s+(?:الصحيحة|الصحيح|النهائية|هي|هو|رقم|الحرف))*\s*:?\s*",
        ),
        lead(Strong, r"(?:उत्तर|विकल्प|जवाब)(?:\s+(?:है|विकल्प|होगा))*\s*:?\s*"),
        lead(Strong, r"\b(?:trifft|stimmt|passt)\s+(?:nur\s+)?(?:die\s+)?(?:antwort|option|aussage)\s+"),
        // Chinese
        lead(
            Strong,
            r"(?:正确|正確|最终|最終|最佳|最后|最合适)?的?(?:答案|选项|選項|答|结论)(?:应该|應該|应当|應當|应|應|就|可能|便|显然|选择)*\s*(?:是|为|為|选|選|:|=|->|→)\s*(?:选项|選項|选择|選擇|选|選|字母|:)*\s*",
        ),
        lead(
            Strong,
            r"(?:因此|所以|故|应该|应|應|我|综上|本题|本題|最终|最終|于是|可|就|应当|则|即|固|故此|[,，;；\n]|^)\s*(?:选择|選擇|选|選)(?:项|項)?\s*(?:答案|选项|選項|的是|是|:)*\s*",
        ),
        lead(
            Weak,
            r"(?:因此|所以|故|综上|那就|应该|應該|应|就|最终|最終)[,，]?\s*(?:应该|應該)?是\s*(?:选项|選項)?\s*",
        ),
        lead(Weak, r"(?:的|就|才)是\s*(?:选项|選項)?\s*"),
        lead(Weak, r"(?:→|⇒|=>|->)\s*"),
        // Japanese, Korean
        lead(Strong, &format!(r"{CONTRAST}\s*(?:option|die|la|选项|選択肢)?\s*")),
        lead(
            Strong,
            r"(?:答え|正解|回答|解答|答|最終回答|正しい選択肢)\s*(?:は|:|=|として|が)\s*(?:、|,)?\s*(?:選択肢|:)?\s*",
        ),
        lead(Strong, r"(?:정답|답변|답|정답지)\s*(?:은|는|이|:|=)+\s*(?:선택지|보기|옵션)?\s*"),
        // German, French, Spanish, Portuguese, Italian, Russian
        lead(
            Strong,
            r"\b(?:antwort(?:möglichkeit|option)?|lösung|option|auswahl|wahl|ergebnis)\s*(?:ist|lautet|wäre|muss|kann nur|bleibt|:|=|-|–|—)+\s*(?:also|daher|somit|folglich|demnach|eindeutig|wohl|nur|die|der|das|option|antwort(?:möglichkeit)?|buchstabe|:|,|\s)*",
        ),
        lead(
            Strong,
            r"\b(?:ich|wir)\s+(?:wähle|wählen|nehme|nehmen|entscheide mich(?:\s+\w+)? für|tippe auf|würde|antworte)\s*(?:mit|also|daher|deshalb|somit|doch|die|option|antwortmöglichkeit|antwort|auf|für|:|,|\s)*",
        ),
        lead(
            Weak,
            r"\b(?:daher|also|somit|folglich|deshalb|demnach|bleibt)\s*(?:ist(?: es)?|doch|nur|bleibt)?(?:\s+nur)?\s*[:,]?\s*(?:die|option|antwort)*\s*",
        ),
        lead(
            Strong,
            r"\b(?:réponse|option|choix|solution|proposition)(?:\s+(?:correcte|exacte|finale|juste|bonne|qui convient))*\s*(?:est|serait|sera|reste|:|=|-|–|—)+\s*(?:donc|bien|ainsi|clairement|c'est|la|le|l'|option|réponse|lettre|proposition|:|,|\s)*",
        ),
        lead(
            Strong,
            r"\bje\s+(?:choisis|sélectionne|réponds|répondrais|dirais|opte pour|retiens|prends)\s*(?:donc|la|l'|le|option|réponse|lettre|:|,|\s)*",
        ),
        lead(Weak, r"(?:\bdonc|\bainsi|c'est)\s*,?\s*(?:c'est|la|l'|option|réponse|lettre|donc|\s)*"),
        lead(
            Strong,
            r"\b(?:respuesta|opción|alternativa|elección|solución)(?:\s+(?:correcta|final|adecuada|elegida))*\s*(?:es|sería|:|=|-|–|—)+\s*(?:por (?:lo )?tanto|entonces|claramente|la|el|opción|letra|respuesta|:|,|\s)*",
        ),
        lead(
            Strong,
            r"\b(?:elijo|escojo|selecciono|elegiría|me quedo con|escolho|scelgo|opto por)\s*(?:la|a|l'|el|opción|opção|opzione|letra|respuesta|lettera|:|,|\s)*",
        ),
        lead(
            Strong,
            r"\b(?:resposta|opção|alternativa)(?:\s+(?:correta|certa|final))*\s*(?:é|seria|:|=|-|–|—)+\s*(?:portanto|então|letra|opção|alternativa|a\s+letra|a\s+opção|a\s+alternativa|a\b|:|,|\s)*",
        ),
        lead(
            Strong,
            r"\b(?:risposta|opzione|scelta)(?:\s+(?:corretta|giusta|esatta|finale))*\s*(?:è|sarebbe|:|=|-|–|—)+\s*(?:quindi|dunque|la|l'|opzione|lettera|:|,|\s)*",
        ),
        lead(
            Strong,
            r"(?:ответ|вариант|ответом)\s*(?:является|будет|это|—|–|-|:|=)+\s*(?:вариант|буква|под буквой|:|,|\s)*",
        ),
        lead(Strong, r"(?:выбираю|правильный|верный)\s+(?:вариант|ответ)?\s*(?:—|–|-|:)?\s*"),
    ]
});

/// Words between what is denied and what is so: `not A but rather B`.
pub(super) const CONTRAST: &str = r"(?:ではなく|而是|아니라|\bsondern|\bbut rather|\bsino|,\s*а|\bbensì|\bmas sim|\bmelainkan|\bmà là|\blecz|بل|बल्कि|\bpas [A-Z],? mais|\bniet [A-Z],? maar)";

/// Words and particles between two letters that leave both of them standing, by language: `A or B`, `A이거나 B`.
pub(super) const JOINT: &str = concat!(
    r"(?:\s+(?i:and/or|or else|as well as|or|and|und|oder|ou|et|o|u|y|e|и|или|і|або|of|en|eller|och|og|lub|albo|oraz",
    r"|nebo|sau|vagy|atau|dan|veya|ya da|ve|hoặc|và|या|और|أو|یا|หรือ|και|ή)(?:,[^,\n]{1,30},)?\s",
    r"|\s*(?:/|&|或者?是?|或|和|与|與|以?及|还是|還是|跟|か、?または|か、?|と|や|または|もしくは|あるいは|および",
    r"|또는|혹은|아니면|및|이거나|거나|이나|나|와|과|이랑|랑|하고))",
);

/// A letter that is called the answer after it, as group 1: `B is correct`.
pub(super) static CALLED: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"(?:^|[^\w-])(?i:(?:option|choice|answer|letter|statement)\s+)?[(\[]?([A-Z])[)\].]?(?i:(?:\s*[(:,–—-][^.\n]{0,120}?[),–—-]?)?\s+(?:is|remains|seems|looks|appears|must be|would be|has to be|should be|stands out as|stands as)(?:\s+(?:to be|likely|most likely|therefore|thus|hence|clearly|definitely|indeed|probably|certainly|obviously|actually|also))*\s+(?:the\s+)?(?:only\s+|single\s+|one\s+)?(?:correct|right|best|better|more\s+(?:likely|accurate|plausible|appropriate|suitable|fitting)|accurate|most\s+(?:likely|appropriate|accurate|plausible|suitable|fitting|probable|relevant|reasonable|consistent|logical|correct|complete|precise|compatible))(?:\s+(?:answer|option|choice|one|match|description|fit|statement|response))?(?:\s+(?:left|remaining|here))?)\s*(?:[.!;,\n]|$|(?i:than|because|since|as|based|given|here|for))",
        r"(?:^|[^\w-])(?i:(?:option|choice|answer|letter|statement)\s+)?[(\[]?([A-Z])[)\].]?(?i:(?:\s*[(:,–—-][^.\n]{0,120}?[),–—-]?)?\s+(?:is|remains)\s+(?:therefore\s+|thus\s+|clearly\s+|indeed\s+|probably\s+|likely\s+|most likely\s+|definitely\s+)*(?:the|my)\s+(?:final\s+|correct\s+|right\s+|best\s+|only\s+|most\s+(?:likely|appropriate|accurate|plausible|suitable|fitting|probable|reasonable)\s+|closest\s+)*(?:answer|option|choice|one|match|pick)(?:\s+(?:left|remaining|here))?)\s*(?:[.!;,\n]|$|(?i:because|since|as|based|given|here|for))",
        r"(?:^|[^\w-])(?i:(?:option|choice|answer)\s+)[(\[]?([A-Z])[)\].]?\s+(?i:(?:looks|seems|appears|sounds|is)\s+(?:right|correct|best|most likely|most plausible|good|the best))\s*(?:[.!;\n]|$|(?i:because|since|as|to me))",
        r"\b(?i:fits|matches|suits|supports)\s+(?i:option|answer|choice)\s+([A-Z])\b",
        r"(?i:\bso|\btherefore|\bthus|\bhence)[,\s]+(?i:option\s+)?([A-Z])(?i:\s+it\s+is\b)",
        r"(?:^|[^\p{L}\p{N}]|[是的选選项項案以此故])([A-Z])\s*(?:选项|選項|项|項)?\s*(?:是|为|為)?\s*(?:唯一|最)?(?:正确|正確|对的|對的|合适|合適|准确|準確|符合)(?:答案|选项|選項|的)*",
        r"(?:^|[^\p{L}\p{N}]|[はがの肢])\s*([A-Z])\s*(?:が|は)\s*(?:正解|正しい|適切|最も適切)",
        r"(?:^|[^\p{L}\p{N}]|[はがの肢])([A-Z])\s*(?:のみ|だけ)(?:です|が|だ)",
        r"(?:選択肢)\s*([A-Z])\s*(?:です|だ|を選)",
        r"(?:^|[^\p{L}\p{N}]|[はがの肢은는이])\s*([A-Z])\s*(?:のみ|だけ)?(?:です|を選びます|を選択します|だと思います|번|입니다|가 정답|이 정답)",
        r"\b([A-Z])\s+(?i:ist\s+(?:also\s+|daher\s+|somit\s+|eindeutig\s+)?(?:die\s+)?(?:richtig|korrekt|richtige|korrekte))",
        r"\b([A-Z])\s+(?i:est\s+(?:donc\s+|bien\s+)?(?:la\s+)?(?:bonne|correcte?|juste|exacte?))",
        r"\b([A-Z])\s+(?i:(?:es|é|è)\s+(?:la\s+|a\s+)?(?:correct|respuesta|corrett|corret|opción|resposta|risposta|giusta|certa))",
        r"(?i)(?:^|\boption\s+)([a-z])\s+is\s+(?:the\s+)?(?:correct|right)\b",
        r"\b([A-Z])\s*\((?i:correct|right|richtig|correcte?)\)",
        r"(?i:\boption|\banswer|\bchoice)\s+([A-Z])\s+(?i:(?:fits|matches|works|applies|holds)(?:\s+(?:best|better|it|the\s+\w+)){0,2})\s*(?:[.!;\n]|$)",
        r"(?:^|[.!?;:,—–\n]\s*)([A-Z])\s+(?i:it is)\b",
        r"(?:^|[^\w-])([A-Z])\s+(?i:fits (?:best|better)|would be my (?:answer|choice|pick)|is what|describes (?:it|the scene|what)|best (?:describes|matches|fits))\b",
        r"(?i:\bonly\s+(?:option\s+)?)([A-Z])\s+(?i:matches|fits|remains|is (?:left|possible|correct|right|consistent|supported)|agrees)\b",
        r"(?i:\b(?:also|daher|somit|folglich|damit)\s+ist\s+(?:die\s+|option\s+|antwort\s+)*)([A-Z])\s+(?i:richtig|korrekt)",
    ]
    .map(regex)
    .into()
});

pattern! {
    /// Beginnings of a sentence that makes its answer depend on something.
    pub(super) CONDITION = r"(?i)(?:^|,\s*(?:but|and|then)\s+)\s*(?:but |and |then |even |only )?(?:if|otherwise|unless|suppose|supposing|assuming|(?:were|should|had) (?:it|the|this|that|there|he|she|they|you|we)|in case|provided|depending on|before|until|to (?:choose|pick|select|\s*$)|whether|jika|kalau|apabila|eğer|nếu|jeśli|jeżeli|jestliže|hvis|dacă|якщо|اگر|যদি|wenn|falls|sofern|angenommen|si\b|s'il|à moins|même si|a menos|en caso|se\b|caso|если)\b|如果|假如|假设|若|要是|もし|仮に|なら|만약"
}

pattern! {
    /// Conditions that only soften: `If I had to guess, B`.
    pub(super) SOFTENED = r"(?i)\bif (?:I|we) (?:had|have|must|were|was|am) (?:to |forced to )?(?:guess|choose|pick|answer|decide|say)\b|\bif (?:forced|pressed|I must)\b|\bif (?:we|you|one|I) (?:look|watch|consider|observe|zoom|check|go by|count|compare|focus|examine|take)\b|\bsi (?:observamos|miramos|on regarde|l'on regarde)\b|\bwenn (?:man|wir|ich)\b"
}

pattern! {
    /// Others' opinions, first thoughts, examples.
    pub(super) OTHERS = r"(?i)\b(?:some|many|others|people|someone|somebody|anyone|they|users?|viewers?|gpt\S*|the (?:ground truth|teacher|host|user|model|subtitle)\w*)\s+(?:\w+\s+){0,2}(?:say|says|said|think|thinks|thought|believe|claims?|argue|guess|choose|pick|answer|assume|suppose|be tempted|reads?|announces?)\b|\b(?:at first(?: glance| sight|,? I)|according to the (?:teacher|host|man|woman|speaker)|looks? as if|seems? as if|might seem|initially|my first|first impression|first guess|tempting|I thought|I first|I initially|was going to|wanted to)\b|\b(?:in the format|format (?:is|should)|probability|(?:for|an) example|template|e\.g|for instance|like this|look like|so far)\b|\bsuch as\W*$|\b(?:let me|let's|I will|I'll|I need to|I should|I am going to|I'm going to)\s+(?:now |first |then |also )?(?:check|look|zoom|verify|examine|inspect|watch|crop|view|analy[sz]e|see|count|go|consider)\b|例如|比如|たとえば|zum Beispiel|par exemple|por ejemplo"
}

pattern! {
    /// A negation right in front of the phrase or of what follows.
    pub(super) NEGATED = r"(?i)(?:\bnot|\bno|n't|\bnever|\bcannot|\bneither|\brather than|\binstead of|\bunlike|\bwhether (?:it is|it's|this is|that is)?|\bwrong|\bincorrect|\beliminated?|\brule[sd]? out|\bnicht|\bkeine?|\bne|\bpas|\bnon|\bnão|\bno es|\bне|不|没|沒|并非|非|错误|錯誤|間違|不正解)\W*$"
}

pattern! {
    /// Words that take back what was said.
    pub(super) TAKEN_BACK = r"(?i)(?:^|[.!?…\n—–-]\s*)(?:no,? wait|no,? it's not|wait[,.!…—-]|wait\s*$|hmm+|on reflection|on second look|that was (?:a mistake|wrong)|this is wrong|that's a mistake|hold on|scratch that|actually,? I (?:cannot|can't|have to correct)|sorry,? \(?[A-Z]\)? is (?:wrong|incorrect)|actually,? no|no, that|on second thoughts?|but wait|that's (?:wrong|not right)|that (?:is|was) (?:wrong|incorrect|not right|not correct)|that can't be|I (?:take|took) (?:that|it|this) back|never mind|scrap that|strike that|sorry,? I (?:have to|must) retract|actually,? that(?:'s| is) (?:wrong|incorrect)|but no,|but I cannot confirm|oh no|等等|不对|不對|いや)"
}

pattern! {
    /// A denial behind a letter, in languages that put it there: `B ではありません`, `B가 아닙니다`, `B değil`.
    pub(super) TURNED_DOWN = r#"(?i)^[^\S\n]*[)\]}"'’]*[^\S\n]*(?:[-–—]\s*)?(?:번)?(?:(?:が|は|も)\s*)?(?:(?:正解|答え|正しい)\s*)?(?:では?な|では?あり|ではご|じゃな|じゃあり|とは言|とは限|とはいえ|(?:은|는|이|가)?\s*(?:아니|아닙|아닌|아님|오답|틀)|라고 할 수 없|일 수도 있|かもしれ|(?:सही\s+|गलत|)(?:नहीं|गलत)|是?(?:错|錯|不对|不對|不正确|不正確)|خاطئ|خطأ|غير صحيح|ليس|نیست|değil|olamaz|yanlış|salah\b|bukan\b|không (?:đúng|phải)|не\s?верн|неправильн)"#
}

pattern! {
    /// A line about an answer that is not the reply's own: `Runner-up: C`, `Previous answer: A`.
    pub(super) ASIDE = r"(?i)^[^\p{L}\p{N}\n]*(?:my |the |a )?(?:runner[\s-]?up|second(?:ary)?\b|2nd|next[\s-]best|third|another|previous|earlier|initial|original|first (?:thought|guess|impression|idea)|old\b|user\b|student\b|rejected|discarded|eliminated|excluded|not (?:chosen|selected|the answer)|your\b|unlikely|less likely|least\b|worst|wrong|incorrect|false\b|most common|common|distractor|backup|fallback|zweit|falsch|deuxième|mauvaise|segunda|seconda|запасной|второ|неправильн|неверн|오답|次选|次選|第二|错误|錯誤)[^:：=\n]{0,40}[:：=]"
}

pattern! {
    /// The same where nothing else is said, `Alternativa: B` is an answer.
    pub(super) OTHER_OPTION = r"(?i)^[^\p{L}\n]*alternativ\w*\b[^:：=\n]{0,20}[:：=]"
}

pattern! {
    /// A text says that it cannot answer.
    pub(super) REFUSED = r"(?i)\b(?:cannot|can't|could not|couldn't|unable|not able|impossible|not possible) (?:to )?(?:\w+ )?(?:say|tell|give|determine|answer|locate|identify|find|name|provide|confirm|count|know)|无法(?:确定|判断|给出|回答)|kann (?:ich )?(?:es )?nicht|impossible de"
}

pattern! {
    /// A line of a list or of a table that is marked as the right one; its letter as group 1.
    pub(super) CHECKED = r"(?m)^\W*([A-Z])(?:[.):、][^\n|]*)?(?:\s*(?:✓|✔|✅|☑|\((?i:correct|right)\)|(?:←|<-+)\s*(?i:correct|right|this|answer)[^\n]*)\W*$|[^\n]*\|\s*(?i:correct|yes|right|true|✓|✔|✅)\s*\|?\s*$)|(?:✓|✔|✅|☑)\s*\(?([A-Z])(?:[.):、]|\s+[-–—]|\s*$)"
}

/// The only letter that a text leaves over, as group 1: `all options but A are wrong`, `none of them except D`.
pub(super) static SPARED: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"(?i:\b(?:all|every|each)\b[^.\n]{0,40}\b(?:but|except(?:\s+for)?|other than|apart from)\s+(?:option\s+)?)\(?([A-Z])\b(?i:[^.\n]{0,40}\b(?:wrong|incorrect|false|excluded|eliminated|ruled out|impossible|out))\b",
        r"(?i:\b(?:none|no (?:option|answer|choice|other|one)|nothing)\b[^.\n]{0,40}\b(?:but|except(?:\s+for)?|other than|besides)\s+(?:option\s+)?)\(?([A-Z])\b",
    ]
    .map(regex)
    .into()
});

/// A phrase is what somebody else says, `the guide tells them that the answer is`; not `I said that`.
pub(super) fn is_reported(before: &str) -> bool {
    pattern! { SAYS = r"(?i)(\S+)\s+(?:says?|said|insists?|insisted|tells?|told|claims?|claimed|argues?|argued|shouts?|shouted|yells?|whispers?|announces?|announced|declares?|declared|maintains?|swears?|replies|replied|guesses|believes|thinks|exclaims?)\b[^,;:—–]*$" }
    if is_speech(before) {
        return true;
    }
    const OWN: [&str; 8] = ["i", "we", "would", "i'd", "can", "could", "to", "must"];
    SAYS.captures(before).is_some_and(|found| !OWN.contains(&found[1].to_lowercase().as_str()))
}

/// Somebody's own words up to the end of a text: `the boy shouts "It's a trout, the answer is`.
pub(super) fn is_speech(before: &str) -> bool {
    pattern! { SPEECH = r"(\S+)\s+(?:says|said|insists|tells|told|claims|shouts|shouted|yells|cries|whispers|announces|replies)[,:]?\s+(?:It|The|That|This|He|She|Yes|No|My|We|You)\b[^.;\n]*$" }
    SPEECH.is_match(before) && !before.contains(" so ")
}

/// A letter behind a noun is a name: `Speaker B is right`, `Plan B is the best`.
pub(super) fn is_name(before: &str) -> bool {
    pattern! { NOUN = r"(?i)(?:^|[^\w])([a-z]{3,})\s[(\[]?$" }
    const NO_NAME: [&str; 35] = [
        "option", "choice", "answer", "letter", "statement", "alternative", "opción", "opzione",
        "proposition", "and", "but", "then", "thus", "therefore", "hence", "that", "think", "believe", "say",
        "clearly", "because", "since", "only", "conclude", "means", "dass", "que", "donc", "also", "making",
        "makes", "leaves", "conclusion", "while", "for",
    ];
    NOUN.captures(before).is_some_and(|found| !NO_NAME.contains(&found[1].to_lowercase().as_str()))
}

/// A phrase is about another answer than the model's own: `the next best option is`, `his first choice was`.
pub(super) fn is_of_other_answer(before: &str) -> bool {
    pattern! { OTHER = r"(?i)(\b(?:next|second|third|another|other|least|previous|earlier|prior|wrong|incorrect|alternative|worst|initial|original|old|tempting|common|runner-up|his|her|their|whose|[a-z]+'s)\b)(?:\s+[\w-]+){0,3}\s*$" }
    const OWN: [&str; 6] = ["let's", "it's", "that's", "here's", "what's", "there's"];
    OTHER.captures(before).is_some_and(|found| !OWN.contains(&found[1].to_lowercase().as_str()))
}

/// The clause that leads up to a phrase denies or doubts it: `I don't think the answer is`.
pub(super) fn is_clause_denied(before: &str) -> bool {
    pattern! { DENIED = r"(?i)\b(?:neither|none of|nothing|unclear|unsure|uncertain|(?:might|may|could) think|(?:asks?|asked|asking|wonders?) (?:if|whether)|mistake to|wrong to|don't|do not|doesn't|does not|didn't|did not|cannot|can't|no (?:evidence|sign|reason|proof)|not (?:sure|clear|certain|think|believe|convinced)|unlikely|doubt|wouldn't|would not|hardly|hard to|impossible|difficult to|nicht|ne pense pas|no creo|не)\b|不认为|不觉得|无法|無法|とは思わ" }
    let clause = before.rsplit([',', ';', ':', '—', '，', '；']).next().unwrap_or(before);
    let clause = clause.rsplit(" so ").next().unwrap_or(clause);
    let clause = clause.rsplit(" but ").next().unwrap_or(clause);
    DENIED.is_match(clause)
}
