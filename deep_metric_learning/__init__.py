"""Names that models of your own need, in one package.

    import deep_metric_learning as dml

    loss = dml.ProxyAnchorLoss(num_classes=100, embedding_dim=128)

A name is imported on its first use. The import also lets `keras.models.load_model` find the classes of this project.
"""

from typing import TYPE_CHECKING

from common import (  # fails if another `common` hides that of deep-metric-learning: rename it
    PROJECT as PROJECT,
    __version__ as __version__,
)
from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from ccp_dml import (
        AlternatingProjections as AlternatingProjections,
        ChanceConstrainedLoss as ChanceConstrainedLoss,
        ChanceConstrainedModel as ChanceConstrainedModel,
        ClassPools as ClassPools,
        ProjectionRules as ProjectionRules,
        ProximalTerm as ProximalTerm,
        SampleBasedLoss as SampleBasedLoss,
        choose_representatives as choose_representatives,
        sample_pools as sample_pools,
    )
    from common.backbones import (
        bn_inception as bn_inception,
        cut_network as cut_network,
        efficientnet_lite0 as efficientnet_lite0,
        enable_lora as enable_lora,
        freeze_batch_norm as freeze_batch_norm,
        keras_backbone as keras_backbone,
        keras_hub_backbone as keras_hub_backbone,
        merge_lora as merge_lora,
        mobilenet_v2 as mobilenet_v2,
        resnet50 as resnet50,
        vision_transformer as vision_transformer,
        vit_base_16 as vit_base_16,
        vit_small_16 as vit_small_16,
    )
    from common.data import (
        ClassBalancedBatches as ClassBalancedBatches,
        Examples as Examples,
        HierarchicalBatches as HierarchicalBatches,
        MPerClassBatches as MPerClassBatches,
        NoAugmentation as NoAugmentation,
        training_batches as training_batches,
    )
    from common.deployment import (
        Embedder as Embedder,
        ImagePreprocessing as ImagePreprocessing,
        deployable_model as deployable_model,
        load_embedder as load_embedder,
        save_model as save_model,
    )
    from common.diagnostics import (
        alignment as alignment,
        diagnose as diagnose,
        evaluate_clustering as evaluate_clustering,
        uniformity as uniformity,
    )
    from common.losses import (
        AngularLoss as AngularLoss,
        ArcFaceLoss as ArcFaceLoss,
        CircleLoss as CircleLoss,
        CodingRateLoss as CodingRateLoss,
        ContrastiveLoss as ContrastiveLoss,
        CosFaceLoss as CosFaceLoss,
        CosineContrastiveLoss as CosineContrastiveLoss,
        CrossBatchMemoryLoss as CrossBatchMemoryLoss,
        FastAPLoss as FastAPLoss,
        HIERLoss as HIERLoss,
        HistogramLoss as HistogramLoss,
        HyperbolicLoss as HyperbolicLoss,
        KoLeoLoss as KoLeoLoss,
        LiftedStructureLoss as LiftedStructureLoss,
        MarginLoss as MarginLoss,
        MatryoshkaLoss as MatryoshkaLoss,
        MetricLoss as MetricLoss,
        MinedLoss as MinedLoss,
        MultiSimilarityLoss as MultiSimilarityLoss,
        NormalizedSoftmaxLoss as NormalizedSoftmaxLoss,
        NPairLoss as NPairLoss,
        PenalizedNegativesLoss as PenalizedNegativesLoss,
        ProxyAnchorLoss as ProxyAnchorLoss,
        ProxyNCALoss as ProxyNCALoss,
        QuadrupletLoss as QuadrupletLoss,
        RecallAtKLoss as RecallAtKLoss,
        RoadmapLoss as RoadmapLoss,
        SelfDistillationLoss as SelfDistillationLoss,
        SignalToNoiseLoss as SignalToNoiseLoss,
        SmoothAPLoss as SmoothAPLoss,
        SoftTripleLoss as SoftTripleLoss,
        SupervisedContrastiveLoss as SupervisedContrastiveLoss,
        ThresholdConsistentMarginLoss as ThresholdConsistentMarginLoss,
        TripletLoss as TripletLoss,
        WeightedSumLoss as WeightedSumLoss,
    )
    from common.miners import (
        batch_hard as batch_hard,
        distance_weighted as distance_weighted,
        inter_class as inter_class,
        intra_class as intra_class,
        multi_similarity_pairs as multi_similarity_pairs,
        pairs_of as pairs_of,
        random_triplets as random_triplets,
        semi_hard as semi_hard,
        soft_hard as soft_hard,
    )
    from common.ops.normalization import normalize as normalize
    from common.pooling import (
        CBAMPooling as CBAMPooling,
        ClassTokenPooling as ClassTokenPooling,
        CrossDimensionalPooling as CrossDimensionalPooling,
        DeLFPooling as DeLFPooling,
        FeaturePooling as FeaturePooling,
        GeneralizedMaxPooling as GeneralizedMaxPooling,
        GeneralizedMeanPooling as GeneralizedMeanPooling,
        GlobalAverageMaxPooling as GlobalAverageMaxPooling,
        GlobalAveragePooling as GlobalAveragePooling,
        GlobalMaxPooling as GlobalMaxPooling,
        NetVLADPooling as NetVLADPooling,
        NormAttentionPooling as NormAttentionPooling,
        OptimalTransportPooling as OptimalTransportPooling,
        SecondOrderAttentionPooling as SecondOrderAttentionPooling,
        SecondOrderPooling as SecondOrderPooling,
        WeightedPooling as WeightedPooling,
        WeldonPooling as WeldonPooling,
    )
    from common.references import (
        CrossBatchMemory as CrossBatchMemory,
        ProxyBank as ProxyBank,
        References as References,
        compare as compare,
    )
    from common.retrieval import (
        evaluate_hierarchy as evaluate_hierarchy,
        evaluate_retrieval as evaluate_retrieval,
        evaluate_with_junk as evaluate_with_junk,
        find_nearest_neighbors as find_nearest_neighbors,
        hierarchical_average_precision as hierarchical_average_precision,
        map_at_r as map_at_r,
        match_sequences as match_sequences,
        ndcg as ndcg,
        open_set_rejection as open_set_rejection,
        precision_at_1 as precision_at_1,
        r_precision as r_precision,
        recall_at_k as recall_at_k,
        verify_pairs as verify_pairs,
    )
    from common.training import (
        EmbeddingDiagnostics as EmbeddingDiagnostics,
        EmbeddingHead as EmbeddingHead,
        FusedAdam as FusedAdam,
        FusedAdamW as FusedAdamW,
        InBatchPrecision as InBatchPrecision,
        MetricModel as MetricModel,
        ProxyRateOptimizer as ProxyRateOptimizer,
        RetrievalEvaluation as RetrievalEvaluation,
        choose_model as choose_model,
        within_class_whitening as within_class_whitening,
    )
    from gsp_dml import (
        CombinedSumHead as CombinedSumHead,
        GeneralizedSumPooling as GeneralizedSumPooling,
        ZeroShotPredictionLoss as ZeroShotPredictionLoss,
        partial_transport as partial_transport,
        prototype_combination as prototype_combination,
        weight_perplexity as weight_perplexity,
    )
    from photo_search.index import (
        EmbeddingIndex as EmbeddingIndex,
        QueryExpansion as QueryExpansion,
        Reranking as Reranking,
        calibrate_rejection as calibrate_rejection,
        calibrate_threshold as calibrate_threshold,
        find_label_suspects as find_label_suspects,
        find_near_duplicates as find_near_duplicates,
    )

import_when_used(__name__)
